"""The judging part of a round: calibration, and the gate's looks and verdicts on each branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coevo.diagnostics.types import Level
from coevo.evidence.rows import frame_of
from coevo.evidence.types import Frame
from coevo.gate.types import Ask, Judgement, Look, Seen, Status, Subject, Verdict
from coevo.lab import baseline
from coevo.lab.designing import sources_of
from coevo.lab.desk import Desk, Fact
from coevo.lab.interventions import allowed, sealed
from coevo.lab.ledger import START, Ledger
from coevo.lab.measuring import gate_row, samples_of
from coevo.lab.records import look_dict
from coevo.lab.rounds import Calibrate, Judge
from coevo.lab.spending import of_branch, overspent
from coevo.lab.types import Branch, BranchState, Family
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.training.opening import Setup

PROMISED = ("recipe", "files", "sealed", "record", "base_weights", "training", "rows")
"""What every arm of a lab carries; where it is missing, integrity fails."""


def diagnose_branch(desk: Desk, name: str) -> None:
    """What a branch's training rollouts say, beside its parent's."""
    from coevo.diagnostics.diagnose import diagnose

    branch = desk.ledger.branches[name]
    baseline = desk.frame(branch.parent) if branch.parent else None
    found = diagnose(desk.frame(name), baseline, diagnostics=desk.diagnostics())
    loud = [f"{level}: {', '.join(f.diagnostic for f in found.at(level))}" for level in (Level.CRITICAL, Level.WARN)]
    said = "; ".join(line for line in loud if not line.endswith(": "))
    desk.notify(f"{name}: diagnosed, {said or 'nothing speaks'}")
    desk.commit(Fact("diagnosed", {"branch": name, "diagnosis": found.to_dict(), "round": branch.round}))


def calibrate_gate(desk: Desk, action: Calibrate) -> None:
    """The parent against itself, twice: noise, false promotions, the smallest gain that can be seen."""
    from coevo.gate.calibrate import calibrate

    config = desk.config
    if not config.calibration:
        desk.commit(Fact("calibrated", {"branch": action.branch, "calibration": None}))
        return
    tasks = desk.measurer.tasks("gate")
    samples = config.gate.samples * config.gate.looks
    run = desk.branches.path(action.branch)
    arms, rows = [], []
    for twin in (1, 2):
        seed = stream_seed(config.seed, "calibrate", action.branch, desk.ledger.rounds, twin) % 2**62
        found = measured_rows(desk, run, "gate", tasks, samples, seed)
        rows += [{**row, "split": "calibration", "look": twin} for row in found]
        arms.append(samples_of(found, tasks))
    found = calibrate(config.gate, (arms[0], arms[1]), trials=config.calibration, seed=config.seed)
    untrained = measured_rows(desk, desk.branches.path(START), "gate", tasks, samples, seed, untrained=True)
    rows += [{**row, "split": "calibration", "look": 3, "branch": baseline.NAME} for row in untrained]
    base = baseline.against_base(action.branch, samples_of(untrained, tasks), arms[1], seed=config.seed)
    if base is not None:
        desk.notify(f"{action.branch}: {base.told()}{': training has spoilt it' if base.spoilt else ''}")
    desk.notify(
        f"gate calibrated on {action.branch}: twins promoted {found.false_promotions:.1%} of {found.trials} times, gains from "
        f"{found.detectable:.3f} of truth can be seen"
    )
    payload = {"branch": action.branch, "calibration": found.to_dict(), "base": base and base.to_dict()}
    desk.commit(Fact("calibrated", payload), rows=rows)


def judge_branch(desk: Desk, action: Judge) -> None:
    """One step of the gate: a look at both arms, or the verdict."""
    branch = desk.ledger.branches[action.branch]
    if branch.state is BranchState.FAILED:
        why = desk.ledger.trouble.get(branch.name, "its training failed")
        _verdict(desk, action, Judgement(Verdict.UNMEASURED, (f"training failed: {why}",)))
        return
    if why := _spoilt(desk, branch):
        _verdict(desk, action, Judgement(Verdict.UNMEASURED, (why,)))
        return
    if twin := _twin(desk, branch):
        why = f"the same weights as {twin}, to the last bit: the declared change did nothing"
        _verdict(desk, action, Judgement(Verdict.REJECTED, (why,)))
        return
    if not (desk.ledger.round and desk.ledger.round.looks.get(branch.name)):
        found = of_branch(desk.ledger, branch.name, action.against)
        if why := overspent(found, desk.config.spend):
            _verdict(desk, action, Judgement(Verdict.REJECTED, (why,)))
            return
    said = desk.gate(desk.config.gate, seen_of(desk, action))
    if isinstance(said, Judgement):
        _verdict(desk, action, replace(said, reasons=(*said.reasons, *_without_control(desk, action))))
    else:
        _look(desk, action, said)


def _spoilt(desk: Desk, branch: Branch) -> str:
    """Why nothing can be said of a child: its control is not what its training left, so that nobody knows what more steps alone do. The parent in
    its place would be the weaker yardstick, and who spoils a control would gain by it."""
    control = desk.ledger.control()
    if control is None or control.name == branch.name or control.judgement is None:
        return ""
    failed = [c for c in control.judgement.checks if c.status is Status.FAILED and c.name.startswith("integrity.")]
    if control.judgement.verdict is not Verdict.INVALID or not failed:
        return ""
    return f"the control {control.name} is no yardstick ({failed[0].name}: {failed[0].reason}); the next round trains another"


def _without_control(desk: Desk, action: Judge) -> tuple[str, ...]:
    """What a reader of a verdict must know where a child was not held against its control."""
    control = desk.ledger.control()
    if control is None or control.judgement is None or control.name in (action.branch, action.against):
        return ()
    found = control.judgement
    why = f"{found.verdict}" if found.difference is None else f"{found.verdict}, {found.difference:+.3f}"
    return (
        f"held against {action.against}, not the control {control.name} ({why}): what more steps alone do is in it",
    )


def _twin(desk: Desk, branch: Branch) -> str:
    """The control, where a branch that declares a change came to its very weights: another draw of the same policy is luck, whatever it is held
    against. Nothing of a branch whose weights are no longer those recorded: that is the gate's to say."""
    control, weights = desk.ledger.control(), desk.ledger.weights
    if control is None or control.name == branch.name or not weights.get(branch.name):
        return ""
    recorded = weights[branch.name] == weights.get(control.name)
    return control.name if recorded and desk.branches.ended_with(branch.name) == weights[branch.name] else ""


def seen_of(desk: Desk, action: Judge) -> Seen:
    """All the gate goes by."""
    ledger, config = desk.ledger, desk.config
    assert ledger.round is not None
    control = ledger.control()
    siblings = 1 if control is not None and control.name == action.branch else max(1, len(ledger.children()))
    looks = tuple(_with_rows(desk, action, look) for look in ledger.round.looks.get(action.branch, ()))
    return Seen(
        parent=_subject(desk, action.against, None),
        child=_subject(desk, action.branch, action.against),
        tasks=desk.measurer.tasks("gate"),
        holdout_tasks=desk.measurer.tasks("holdout"),
        looks=looks,
        holdout_accesses=ledger.holdout,
        calibration=ledger.calibration,
        seed=config.seed,
        share=1 / siblings,
        answers=desk.measurer.answers(),
        decoys=desk.measurer.decoys(),
        promised=PROMISED,
    )


def _subject(desk: Desk, name: str, against: str | None) -> Subject:
    branch = desk.ledger.branches[name]
    desk.harness.restore(branch.commit, name)
    edited = desk.harness.edited(branch.commit, name)
    more: dict[str, Any] = {}
    if against is not None:
        more = {
            "origins": desk.branches.origins(desk.ledger, branch),
            "declared": declared(branch),
            "allowed": tuple(allowed(desk.config)),
        }
    return Subject(
        name=name,
        recipe=_trained_by(desk, name),
        files=_changeable(desk.harness.files(branch.commit)),
        sealed=sealed(desk.run.config, desk.measurer.judge()) if against is not None else desk.ledger.sealed,
        base_weights=desk.branches.began_with(name),
        training=desk.frame(name),
        recorded={
            **_recorded(desk.ledger, name),
            **(_of_sources(branch, lambda source: _recorded(desk.ledger, source)) if against is not None else {}),
            **dict.fromkeys(edited, branch.commit),
        },
        found={
            **_found(desk, name),
            **(_of_sources(branch, lambda source: _found(desk, source)) if against is not None else {}),
        },
        **more,
    )


def _recorded(ledger: Ledger, name: str) -> dict[str, str]:
    """Digests of what a branch's training left, taken when it had ended."""
    known = {
        "weights": ledger.weights.get(name, ""),
        "training run": ledger.records.get(name, ""),
        "tokenizer or settings": ledger.asked.get(name, ""),
    }
    return {what: digest for what, digest in known.items() if digest}


def _found(desk: Desk, name: str) -> dict[str, str]:
    """The same, taken now."""
    branches = desk.branches
    return {
        "weights": branches.ended_with(name),
        "training run": branches.record(name),
        "tokenizer or settings": branches.asked_with(name),
    }


def _of_sources(branch: Branch, digests: Callable[[str], Mapping[str, str]]) -> dict[str, str]:
    """Of the branches that this one's weights come from: what was wrong there is wrong here."""
    names = sources_of(branch.proposal.change) if branch.proposal else ()
    return {f"{what} ({source})": digest for source in names for what, digest in digests(source).items()}


def _changeable(files: Mapping[str, str]) -> dict[str, str]:
    """Harness files but those that the lab itself writes between rounds: a child has skills and diagnostics that its parent had not yet."""
    return {path: digest for path, digest in files.items() if not path.startswith(("skills/", "diagnostics/"))}


def declared(branch: Branch) -> tuple[str, ...]:
    """What its proposal said it would change."""
    if branch.proposal is None or branch.proposal.family is Family.CONTINUE:
        return ()
    change = branch.proposal.change
    return (*change.sets, *change.files, *(("weights",) if change.weights else ()))


def _trained_by(desk: Desk, name: str) -> dict[str, Any]:
    """The recipe that the training run holds (not the one the harness says), without its count of steps and without the seed that the lab gave
    its round; reward files as in the harness."""
    path = desk.branches.path(name)
    with Run.open(path, write=False) as run:
        recipe = Setup.read(run).recipe.model_dump(mode="json")
    recipe.pop("steps")
    if recipe["seed"] == desk.branches.seed(desk.ledger.branches[name]):
        del recipe["seed"]
    prefix = f"{(desk.path / 'worktrees' / name).resolve()}/"
    parts = recipe["reward"]["parts"]
    recipe["reward"]["parts"] = {part.removeprefix(prefix): weight for part, weight in parts.items()}
    return recipe


def _look(desk: Desk, action: Judge, ask: Ask) -> None:
    rows, frames, values = [], [], []
    for arm in (action.against, action.branch):
        found = measured_rows(desk, desk.branches.path(arm), ask.split, ask.tasks, ask.samples, ask.seed)
        rows += [{**row, "branch": arm, "look_of": action.branch, "look": ask.number} for row in found]
        frames.append(frame_of(map(gate_row, found)))
        values.append(samples_of(found, ask.tasks))
    look = Look(ask.split, ask.number, values[0], values[1])
    desk.looked[(action.branch, ask.split, ask.number)] = (frames[0], frames[1])
    payload = {
        "branch": action.branch,
        "against": action.against,
        "why": ask.why,
        "seed": str(ask.seed),
        "look": look_dict(look),
    }
    desk.commit(Fact("looked", payload), rows=rows)


def measured_rows(
    desk: Desk, run: Any, split: str, tasks: Any, samples: int, seed: int, *, untrained: bool = False
) -> list[dict[str, Any]]:
    """Fresh rollouts, paid from the lab's budget: booked with the event that follows."""
    desk.harness.restore(desk.ledger.branches[run.name].commit, run.name)
    ticket = desk.run.ledger.reserve("measure", evaluations=0, tokens=0)
    try:
        rows = desk.measurer.measure(run, split=split, tasks=tasks, samples=samples, seed=seed, untrained=untrained)
    except BaseException:
        desk.run.ledger.release(ticket)
        raise
    tokens = sum(int(row["tokens"] or 0) for row in rows)
    desk.due.append((ticket, {"evaluations": len(rows), "tokens": tokens}))
    return rows


def _with_rows(desk: Desk, action: Judge, look: Look) -> Look:
    """A stored look with the rows behind it; read from the run after a kill."""
    key = (action.branch, look.split, look.number)
    if key not in desk.looked:
        rows = [
            row
            for row in desk.run.rollouts(split=look.split)
            if row.get("look_of") == action.branch and row.get("look") == look.number
        ]
        arms: list[Frame] = [
            frame_of([gate_row(_plain(row)) for row in rows if row["branch"] == arm])
            for arm in (action.against, action.branch)
        ]
        desk.looked[key] = (arms[0], arms[1])
    parent, child = desk.looked[key]
    return look._replace(parent_frame=parent, child_frame=child)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("look_of", "look")}


def why_of(reasons: Sequence[str]) -> list[str]:
    """The reasons of a verdict without what was merely not checked, which the judgement's checks list."""
    return [reason for reason in reasons if ": not checked: " not in reason] or list(reasons[:1])


def _verdict(desk: Desk, action: Judge, judgement: Judgement) -> None:
    why = "; ".join(why_of(judgement.reasons)[:2])
    desk.notify(f"{action.branch} against {action.against}: {judgement.verdict}; {why}")
    spent = {one.what: one.times for one in of_branch(desk.ledger, action.branch, action.against)}
    payload = {
        "branch": action.branch,
        "against": action.against,
        "judgement": judgement.to_dict(),
        **({"spent": spent} if spent else {}),
    }
    desk.commit(Fact("judged", payload))
    for key in [key for key in desk.looked if key[0] == action.branch]:
        del desk.looked[key]
