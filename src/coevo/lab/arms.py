"""Ways to spend one budget, side by side: the lab, the lab with parts taken out, and what people do without one.

    coevo            the lab as configured
    frozen_harness   the same; diagnostics, rules and skills stay as they are
    placebo          the same; interventions are drawn at random, whatever the diagnosis says
    score_only       the same proposals, kept if they score higher, once, by the score that training sees
    human            one recipe, made by hand, trained for the whole budget
    best_of_n        as many seeds of the first recipe as a round has branches, the best by score kept

The budget is counted in rollouts, those of training and those of measuring together: what the lab spends on its gate, arms without a gate may spend on
training (`plan_of`). One unit is an arm and a seed; a unit is a folder, and a finished one is not done again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from coevo.config import Config, assigned, parse
from coevo.errors import InfrastructureError, UsageError
from coevo.gate.settings import GateConfig
from coevo.gate.types import Ask, Judgement, Seen, Verdict
from coevo.lab.driver import absolute_config, new_lab, read_lab, run_lab
from coevo.lab.interventions import resolved
from coevo.lab.ledger import START
from coevo.lab.measuring import Measurer, open_measurer, worth
from coevo.lab.settings import LabConfig
from coevo.lab.worker import die_with
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.training.opening import Setup
from coevo.training.settings import Recipe

ArmName = Literal["coevo", "frozen_harness", "placebo", "score_only", "human", "best_of_n"]
ARMS: tuple[ArmName, ...] = get_args(ArmName)
SELF = "coevo"
"""What every other arm is compared with."""
KIND = "lab-arms"

Notify = Callable[[str], None]


class ArmsConfig(Config):
    """A comparison of arms on one lab's starting point."""

    lab: LabConfig = LabConfig()
    """Its seed is the first of `seeds`."""
    arms: tuple[ArmName, ...] = ARMS
    seeds: int = Field(default=3, ge=1)
    human: dict[str, Any] = Field(default_factory=dict)
    """What the person who made the fixed recipe by hand set otherwise, by dotted name."""
    variants: tuple[dict[str, Any], ...] = ()
    """Settings of the first recipe that differ by seed, by dotted name: seed s begins with variant s, counted round."""
    score: Literal["reward", "fitness"] = "reward"
    """What `score_only` and `best_of_n` go by: the reward of the branch's own recipe, or fitness on public tests."""
    parallel: int = Field(default=1, ge=1, le=64)
    """Units at once, each in a process."""


class Plan(NamedTuple):
    """What a lab may spend at most, in rollouts."""

    step: int
    """Of one optimizer step, replacements not counted."""
    start: int
    """The first branch."""
    round: int
    """Training and measuring of one round."""
    total: int


def plan_of(config: LabConfig, tasks: int, holdout: int) -> Plan:
    """Upper bounds: every look of the gate taken for every branch, one holdout look a round."""
    step = config.recipe.groups * config.recipe.group_size
    branches = config.branches + config.control
    looks = branches * config.gate.looks * 2 * tasks * config.gate.samples
    confirm = 2 * holdout * config.gate.samples if config.gate.holdout else 0
    each = branches * config.steps * step + looks + confirm
    start = config.steps * step
    return Plan(step, start, each, start + config.budget.rounds * each)


# Keeping what scores higher


@dataclass(frozen=True)
class KeepIfHigher:
    """A gate that is none: one look, and the higher mean score stays (the way of most unattended research loops). Takes the place of
    `coevo.gate.deciding.next_step`."""

    score: Literal["reward", "fitness"]

    def __call__(self, config: GateConfig, seen: Seen) -> Ask | Judgement:
        if not seen.looks:
            seed = stream_seed(seen.seed, "keep", seen.child.name) % 2**62
            return Ask("gate", 1, tuple(seen.tasks), config.samples, seed, "one look, by score")
        look = seen.looks[-1]
        assert look.parent_frame is not None and look.child_frame is not None
        means = []
        for frame in (look.parent_frame, look.child_frame):
            values = frame.numbers(self.score)
            known = values[values == values]
            if not len(known):
                return Judgement(Verdict.UNMEASURED, (f"no {self.score} was measured",), tasks=len(seen.tasks), looks=1)
            means.append(float(known.mean()))
        moved = means[1] - means[0]
        verdict = Verdict.PROMOTED if moved > 0 else Verdict.REJECTED
        said = f"{self.score} {means[0]:.4f} -> {means[1]:.4f}"
        return Judgement(verdict, (said,), difference=moved, low=moved, high=moved, tasks=len(seen.tasks), looks=1)


# Units


def run_unit(config: ArmsConfig, arm: ArmName, seed: int, folder: Path) -> dict[str, Any]:
    """One arm with one seed, from wherever a kill left it: {"arm", "seed", "ability", "promotions", "invalid", "rollouts", "steps", ...}.

    `ability` is true ability of the final policy: exact for trainer `toy`, else what a sample is worth on the report split (`measuring.worth`). `invalid`: promotions of a branch
    whose true ability is below that of what it replaced, found out afterwards.
    """
    begun = time.monotonic()
    lab = config.lab.model_copy(update={"seed": config.lab.seed + seed, "name": arm.replace("_", "-")})
    if config.variants:
        data = assigned(lab.recipe.model_dump(mode="json"), config.variants[seed % len(config.variants)])
        lab = lab.model_copy(update={"recipe": parse(Recipe, data, where=f"variants[{seed % len(config.variants)}]")})
    lab = absolute_config(lab)
    with open_measurer(lab) as measurer:
        if arm in ("human", "best_of_n"):
            found = _without_a_lab(config, lab, arm, folder, measurer)
        else:
            found = _by_lab(config, lab, arm, folder, measurer)
    return {"arm": arm, "seed": seed, **found, "wall_s": time.monotonic() - begun}


def _by_lab(config: ArmsConfig, lab: LabConfig, arm: ArmName, folder: Path, measurer: Measurer) -> dict[str, Any]:
    gate = None
    if arm == "frozen_harness":
        lab = lab.model_copy(update={"frozen_harness": True})
    elif arm == "placebo":
        lab = lab.model_copy(update={"placebo": True})
    elif arm == "score_only":
        lab, gate = _rounds_for_all(lab, measurer), KeepIfHigher(config.score)
    if not (folder / "run.db").exists():
        new_lab(lab, folder)
    outcome = run_lab(folder, gate=gate)
    if outcome.ended != "finished":
        raise InfrastructureError(
            f"arm {arm} was not finished ({outcome.message}). What is done is kept: the same command goes on from there"
        )
    settings, ledger = read_lab(folder)
    known: dict[str, Mapping[str, float]] = {}

    def of(name: str) -> float:
        if name not in known:
            known[name] = ability_of(settings, folder / "branches" / name, measurer)
        return known[name]["ability"]

    promotions, parent = [], START
    for number in range(1, ledger.rounds + 1):
        name = _promoted(folder, number)
        if name:
            branch = ledger.branches[name]
            change = {} if branch.proposal is None else dict(branch.proposal.change.sets)
            promotions.append(
                {"round": number, "branch": name, "change": change, "before": of(parent), "after": of(name)}
            )
            parent = name
    final = ledger.parent or START
    of(final)
    with Run.open(folder, write=False) as run:
        rollouts = run.ledger.spent()["evaluations"]
    verdicts = [str(b.judgement.verdict) for b in ledger.branches.values() if b.judgement is not None]
    return {
        **known[final],
        "start_ability": of(START),
        "promotions": promotions,
        "invalid": sum(p["after"] < p["before"] for p in promotions),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "steps": ledger.steps_spent,
        "rollouts": rollouts,
        "admitted": sum(bool(a["admitted"]) for a in ledger.admissions),
    }


def _promoted(folder: Path, number: int) -> str:
    with Run.open(folder, write=False) as run:
        return next((str(e.payload["promoted"]) for e in run.events(kinds=("ended",)) if e.step == number), "")


def _rounds_for_all(lab: LabConfig, measurer: Measurer) -> LabConfig:
    """As many rounds as the whole budget buys where a branch is looked at once and nothing is confirmed."""
    tasks = len(measurer.tasks("gate"))
    plan = plan_of(lab, tasks, len(measurer.tasks("holdout")))
    branches = lab.branches + lab.control
    each = branches * (lab.steps * plan.step + 2 * tasks * lab.gate.samples)
    rounds = max(1, (plan.total - plan.start) // each)
    budget = lab.budget.model_copy(update={"rounds": min(1000, rounds), "steps": None})
    return lab.model_copy(update={"budget": budget, "calibration": 0, "frozen_harness": True})


def _without_a_lab(
    config: ArmsConfig, lab: LabConfig, arm: ArmName, folder: Path, measurer: Measurer
) -> dict[str, Any]:
    """Whole training runs: one of a recipe made by hand, or several seeds of the first recipe."""
    tasks = measurer.tasks("gate")
    plan = plan_of(lab, len(tasks), len(measurer.tasks("holdout")))
    count = 1 if arm == "human" else lab.branches + lab.control
    samples = lab.gate.samples * lab.gate.looks
    measuring = 0 if arm == "human" else count * len(tasks) * samples
    steps = max(1, (plan.total - measuring) // (count * plan.step))
    scores: list[tuple[float, int]] = []
    for i in range(count):
        recipe = _recipe(lab, config.human if arm == "human" else {}, i, steps)
        _train(lab, recipe, folder / str(i))
        if count > 1:
            seed = stream_seed(lab.seed, "select", i) % 2**62
            rows = measurer.measure(folder / str(i), split="gate", tasks=tasks, samples=samples, seed=seed)
            values = [row[config.score] for row in rows if row[config.score] is not None]
            scores.append((fmean(values) if values else float("-inf"), -i))
    chosen = -max(scores)[1] if scores else 0
    return {
        **ability_of(lab, folder / str(chosen), measurer),
        "start_ability": None,
        "promotions": [],
        "invalid": 0,
        "verdicts": {},
        "steps": count * steps,
        "rollouts": count * steps * plan.step + measuring,
        "admitted": 0,
    }


def _recipe(lab: LabConfig, sets: Mapping[str, Any], i: int, steps: int) -> Recipe:
    data = assigned(lab.recipe.model_dump(mode="json"), sets)
    seed = stream_seed(lab.seed, "arm", i) % (1 << 62)
    return resolved(data, lab).model_copy(update={"seed": seed, "steps": steps})


def _train(lab: LabConfig, recipe: Recipe, folder: Path) -> None:
    """Train to the end, from wherever a kill left it."""
    from coevo.mini.base import base_folder
    from coevo.runs.types import State
    from coevo.training.session import go_on, train

    if not (folder / "run.db").exists():
        weights = None if recipe.trainer == "toy" else base_folder(recipe.base, notify=lambda line: None)
        folder.parent.mkdir(parents=True, exist_ok=True)
        train(recipe, folder, weights=weights)
        return
    with Run.open(folder, write=False) as run:
        finished = run.state() is State.FINISHED
    if not finished:
        go_on(folder)


def ability_of(lab: LabConfig, run: Path, measurer: Measurer) -> dict[str, float]:
    """`ability` of a training run's newest policy: exact for trainer `toy` (and `ability_8`, of the best of eight), else the mean of what
    samples on the report split are worth, none of which anything has selected on."""
    if lab.recipe.trainer == "toy":
        from coevo.training.toy import true_ability, weights_of

        with Run.open(run, write=False) as opened:
            weights, recipe = weights_of(opened), Setup.read(opened).recipe
        return {"ability": true_ability(recipe, weights), "ability_8": true_ability(recipe, weights, 8)}
    seed = stream_seed(lab.seed, "ability") % 2**62
    samples = lab.gate.samples * lab.gate.looks
    rows = measurer.measure(run, split="report", tasks=measurer.tasks("report"), samples=samples, seed=seed)
    return {"ability": fmean(value for row in rows if (value := worth(row)) is not None)}


# All of them


def compare_arms(config: ArmsConfig, out: str | Path, *, notify: Notify = lambda line: None) -> list[dict[str, Any]]:
    """Run every unit that is not done; the records of all, in order of seed and arm. Goes on where a kill left it.

    Raises `UsageError` where `out` holds another comparison.
    """
    out = Path(out)
    todo: list[tuple[ArmName, int]] = [(arm, seed) for seed in range(config.seeds) for arm in config.arms]
    plain = config.model_dump(mode="json")
    if (out / "run.db").exists():
        run = Run.open(out, write=True)
        if run.kind != KIND or parse(ArmsConfig, run.config, where=f"config of {out}") != config:
            run.close()
            raise UsageError(
                f"{out} holds another comparison; name a new folder, or the settings that it was begun with"
            )
    else:
        run = Run.create(out, kind=KIND, config=plain)
    with run:
        found = {(e.payload["arm"], e.payload["seed"]): e.payload for e in run.events(kinds=("unit",))}
        left = [unit for unit in todo if unit not in found]
        notify(f"{len(todo)} units ({len(config.arms)} arms x {config.seeds} seeds), {len(found)} of them done")
        for record in _units(config, out, left):
            run.append("unit", record)
            found[(record["arm"], record["seed"])] = record
            notify(
                f"{record['arm']}, seed {record['seed']}: ability {record['ability']:.4f}, {len(record['promotions'])} promotions, "
                f"{record['invalid']} of them invalid, {record['wall_s']:.0f} s ({len(found)} of {len(todo)})"
            )
    return [dict(found[unit]) for unit in todo]


def _units(config: ArmsConfig, out: Path, units: list[tuple[ArmName, int]]) -> Any:
    def folder(arm: str, seed: int) -> Path:
        return out / "units" / f"{arm}-{seed}"

    if config.parallel == 1:
        for arm, seed in units:
            yield run_unit(config, arm, seed, folder(arm, seed))
        return
    plain = config.model_dump(mode="json")
    with ProcessPoolExecutor(
        config.parallel, mp_context=get_context("spawn"), initializer=die_with, initargs=(os.getpid(),)
    ) as pool:
        futures = [pool.submit(_apart, plain, arm, seed, str(folder(arm, seed))) for arm, seed in units]
        for future in as_completed(futures):
            yield future.result()


def _apart(plain: dict[str, Any], arm: ArmName, seed: int, folder: str) -> dict[str, Any]:
    return run_unit(parse(ArmsConfig, plain, where="arms"), arm, seed, Path(folder))
