"""The end of a round and of a lab: promotion, scored predictions, what skills did, escalation, the last measurement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coevo.diagnostics.types import Diagnosis
from coevo.errors import BudgetSpent, UsageError
from coevo.gate.types import Judgement, Verdict
from coevo.lab.baseline import NAME
from coevo.lab.desk import Desk, Fact
from coevo.lab.judging import measured_rows
from coevo.lab.measuring import samples_of
from coevo.lab.proposals import score
from coevo.lab.rounds import PATIENCE, EndRound, Escalate, Report, yardstick
from coevo.lab.types import Proposal
from coevo.skills.types import Outcome
from coevo.skills.writing import Discovery, skill_texts, slug
from coevo.streams import stream_seed

LADDER = (
    (
        "Three rounds failed. The judge is checked again on the present parent (a new calibration); read the past branches, and change the layer: if "
        "rewards were changed, look at data, filters or the optimizer, and the other way round."
    ),
    "Skills of other domains are offered now. Prefer what has worked elsewhere to a fourth variation of what failed here.",
    "Try removing: take out the part, bonus, filter or bound that has been there longest without a gain to show for it.",
    "The parent is rolled back to its own parent: what was promoted last may be the trouble. Go another way from there.",
)
"""What is said after three failed rounds in a row, and after each further one."""


def end_round(desk: Desk, action: EndRound) -> None:
    """Make the promoted branch the parent of the next round, and score what was predicted of every child."""
    ledger = desk.ledger
    assert ledger.round is not None
    before = ledger.branches[ledger.round.parent].diagnosis
    scored = []
    for branch in ledger.children():
        proposal = branch.proposal
        if proposal is None or branch.judgement is None or before is None or branch.diagnosis is None:
            continue
        true = score(proposal.prediction, before, branch.diagnosis, branch.judgement)
        scored.append({"branch": branch.name, "confidence": proposal.prediction.confidence, "true": true})
    commit = ledger.branches[action.promoted].commit if action.promoted else ledger.harness
    desk.harness.advance(commit)
    number = ledger.round.number
    desk.notify(f"round {number}: {f'{action.promoted} promoted' if action.promoted else 'nothing promoted'}")
    payload = {"round": number, "promoted": action.promoted, "commit": commit, "scored": scored}
    desk.commit(Fact("ended", payload))


# Skills


def record_skills(desk: Desk) -> None:
    """One use for every child that a skill proposed; a new candidate skill where an idea of the agent's own was promoted."""
    ledger, config = desk.ledger, desk.config
    assert ledger.round is not None
    uses = []
    for branch in ledger.children():
        if branch.proposal is None or not branch.proposal.skill or branch.judgement is None:
            continue
        uses.append(
            {
                "skill": branch.proposal.skill,
                "outcome": str(outcome_of(branch.judgement)),
                "context": config.context(),
                "lab": config.name,
                "round": ledger.round.number,
                "difference": branch.judgement.difference,
                "control": _control_gain(desk),
            }
        )
    commit, written = ledger.harness, []
    if not config.frozen_harness:
        commit, written = _written(desk)
    payload = {"round": ledger.round.number, "uses": uses, "written": written, "commit": commit}
    desk.commit(Fact("skills", payload))


def outcome_of(judgement: Judgement) -> Outcome:
    """What a verdict says of the skill whose change it judged."""
    if judgement.verdict is Verdict.PROMOTED:
        return Outcome.HELPED
    if judgement.verdict is Verdict.INVALID:
        return Outcome.INVALID
    if judgement.verdict is Verdict.REJECTED and judgement.high is not None and judgement.high < 0:
        return Outcome.HURT
    return Outcome.INCONCLUSIVE


def _control_gain(desk: Desk) -> float | None:
    """What the plain continuation gained in the same round. Where a child was held against it that is 0: the difference is over it already. Where
    it was held against the parent, it is what the control was found to gain; None where that is not known."""
    ledger = desk.ledger
    control = ledger.control()
    if control is None or ledger.round is None or control.judgement is None:
        return None
    return 0.0 if yardstick(ledger, ledger.round) == control.name else control.judgement.difference


def _written(desk: Desk) -> tuple[str, list[str]]:
    """A skill for a promoted child that no skill proposed: the commit that holds it, and its name. Nothing where nothing was out of order
    before: a skill must have something to fire on."""
    ledger = desk.ledger
    assert ledger.round is not None
    before = ledger.branches[ledger.round.parent].diagnosis
    promoted = ledger.branches[ledger.parent]
    proposal, judgement = promoted.proposal, promoted.judgement
    fresh = promoted.round == ledger.round.number and proposal is not None and not proposal.skill
    if not fresh or before is None or judgement is None or proposal is None or not proposal.change.sets:
        return ledger.harness, []
    discovery = Discovery(
        name=f"{proposal.family} {next(iter(proposal.change.sets))}",
        hypothesis=proposal.hypothesis,
        before=before,
        sets=proposal.change.sets,
        cites=proposal.evidence,
        metric=proposal.prediction.metric,
        direction=proposal.prediction.direction,
        size=proposal.prediction.size,
        difference=judgement.difference,
        control=_control_gain(desk),
        context=desk.config.context(),
        lab=desk.config.name,
        round=ledger.round.number,
        others=tuple(_elsewhere(desk, proposal)),
    )
    name = slug(discovery.name)
    taken = set(desk.harness.texts(ledger.harness, "skills"))
    while f"skills/{name}/SKILL.md" in taken:
        name = f"{slug(discovery.name)[:52]}-{promoted.name}"
    try:
        texts = skill_texts(discovery, name)
    except UsageError as e:
        desk.notify(f"no skill of {promoted.name}: {e}")
        return ledger.harness, []
    files = {f"skills/{name}/{path}": text for path, text in texts.items()}
    commit = desk.harness.commit(ledger.harness, files, f"Skill {name}, from {promoted.name}")
    desk.harness.advance(commit)
    desk.notify(f"skill {name}: written from {promoted.name}, a candidate until its cases hold")
    return commit, [name]


def _elsewhere(desk: Desk, proposal: Proposal) -> Iterator[Diagnosis]:
    """Diagnoses of parents on which the same settings were changed and not promoted."""
    for branch in desk.ledger.branches.values():
        same = branch.proposal is not None and set(branch.proposal.change.sets) == set(proposal.change.sets)
        if same and branch.parent and branch.judgement and branch.judgement.verdict is not Verdict.PROMOTED:
            found = desk.ledger.branches[branch.parent].diagnosis
            if found is not None:
                yield found


# After failures


def escalate(desk: Desk, action: Escalate) -> None:
    """The next rung of the ladder; from the fourth on the parent is rolled back, too."""
    ledger = desk.ledger
    rung = min(action.failures - PATIENCE, len(LADDER) - 1)
    parent, commit = ledger.parent, ledger.harness
    if rung == len(LADDER) - 1 and (above := ledger.current.parent) is not None:
        parent, commit = above, ledger.branches[above].commit
        desk.harness.advance(commit)
    desk.notify(f"{action.failures} rounds in a row promoted nothing: {LADDER[rung]}")
    payload = {
        "failures": action.failures,
        "text": LADDER[rung],
        "parent": parent,
        "commit": commit,
        "recalibrate": rung == 0 or parent != ledger.parent,
    }
    desk.commit(Fact("escalated", payload))


# The last measurement


def report(desk: Desk, action: Report) -> None:
    """Measure the final branch, the start and the base weights on the report split, once, and write the report."""
    from coevo.lab.report import write_report

    found: dict[str, Any] = {"final": action.final, "start": action.start, "samples": None, "why": ""}
    rows: list[dict[str, Any]] = []
    if action.final == action.start:
        found["why"] = "no branch was promoted"
    try:
        found["samples"], rows = _last_look(desk, action)
    except BudgetSpent as e:
        found["why"] = f"nothing was left for the last measurement: {e}"
    desk.commit(Fact("reported", found), rows=rows)
    write_report(desk.run, desk.config)


def _last_look(desk: Desk, action: Report) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Truth of all arms by task, and the rows behind it."""
    config = desk.config
    tasks = desk.measurer.tasks("report")
    samples = config.gate.samples * config.gate.looks
    again = (desk.ledger.reports + 1,) if desk.ledger.reports else ()
    seed = stream_seed(config.seed, "report", *again) % 2**62
    arms, rows = {}, []
    for name in dict.fromkeys((NAME, action.start, action.final)):
        run, untrained = desk.branches.path(action.start if name == NAME else name), name == NAME
        measured = measured_rows(desk, run, "report", tasks, samples, seed, untrained=untrained)
        rows += [{**row, "branch": name} for row in measured]
        arms[name] = {task: list(values) for task, values in samples_of(measured, tasks).items()}
    return arms, rows
