"""One round of the lab with nothing hidden: what `coevo lab run` does, minus the care.

    python examples/one_round.py [--leak 0.6] [--steps 30] [--seed 0]

Trainer `toy` learns a small world in which hard-coding the public tests pays (`--leak`). A first policy is trained and diagnosed; a change is proposed and trained
next to a control; both answer fresh tasks; a calibrated gate decides. What `coevo.lab` adds: a store that survives `kill -9`, a harness under git, agents, backtests, pruning,
budgets, skills, new diagnostics, a report.

How it departs from the real one, on purpose:
1. One proposal, made by two lines of rules.
2. Branches begin from nothing, not from their parent, so that a spoilt policy spoils nothing.
3. Nothing is resumed: training runs are kept, the round itself is not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from coevo.config import parse
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.types import Diagnosis, Level
from coevo.evidence.opening import open_evidence
from coevo.evidence.rows import frame_of
from coevo.gate.calibrate import calibrate
from coevo.gate.deciding import next_step
from coevo.gate.settings import GateConfig
from coevo.gate.types import Ask, Calibration, Judgement, Look, Seen, Subject
from coevo.lab.measuring import ToyMeasurer, gate_row, samples_of
from coevo.streams import stream_seed
from coevo.training.branch import changes
from coevo.training.session import train
from coevo.training.settings import Recipe

GATE = GateConfig(samples=4, looks=3)


def trained(recipe: Recipe, folder: Path) -> Path:
    """A training run."""
    result = train(recipe, folder)
    print(f"{folder.name}: true ability {result.metrics['ability_last']:.3f} after {result.steps} steps")
    return folder


def propose(diagnosis: Diagnosis, recipe: Recipe) -> tuple[dict[str, object], str]:
    """A change, and the diagnostic that it rests on: the playbook, in two lines."""
    loud = {finding.diagnostic for finding in diagnosis.at(Level.CRITICAL, Level.WARN)}
    leaking = sorted(loud & {"public-hidden-gap", "reward-truth-gap", "reward-truth-agreement"})
    if leaking and recipe.toy.leak:
        return {"toy": recipe.toy.model_copy(update={"leak": 0.0})}, leaking[0]
    return {"lr": recipe.lr * 3}, "nothing"


def subject(name: str, run: Path, recipe: Recipe, declared: tuple[str, ...] | None) -> Subject:
    """An arm, as the gate is told of it."""
    data: Mapping[str, object] = recipe.model_dump(mode="json")
    return Subject(name, recipe=data, training=open_evidence(run), declared=declared, base_weights="nothing")


def look(measurer: ToyMeasurer, ask: Ask, arms: Mapping[str, Path]) -> Look:
    """Fresh samples of both arms on the same tasks."""
    rows = {
        name: measurer.measure(run, split=ask.split, tasks=ask.tasks, samples=ask.samples, seed=ask.seed)
        for name, run in arms.items()
    }
    parent, child = (samples_of(rows[name], ask.tasks) for name in arms)
    return Look(ask.split, ask.number, parent, child, *(frame_of(map(gate_row, rows[name])) for name in arms))


def judge(
    measurer: ToyMeasurer,
    parent: Subject,
    child: Subject,
    arms: Mapping[str, Path],
    calibration: Calibration,
    seed: int,
) -> Judgement:
    """The gate asks for looks until it knows."""
    looks: list[Look] = []
    while True:
        said = next_step(
            GATE,
            Seen(
                parent=parent,
                child=child,
                tasks=measurer.tasks("gate"),
                holdout_tasks=measurer.tasks("holdout"),
                looks=looks,
                holdout_accesses=sum(one.split == "holdout" for one in looks),
                calibration=calibration,
                seed=seed,
            ),
        )
        if isinstance(said, Judgement):
            return said
        print(f"gate: {said.why}")
        looks.append(look(measurer, said, arms))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leak", type=float, default=0.6)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    seeds = [stream_seed(args.seed, "round", number) % 2**62 for number in (0, 1)]
    data = {"trainer": "toy", "steps": args.steps, "seed": seeds[0], "toy": {"leak": args.leak}}
    recipe = parse(Recipe, data, where="recipe")
    measurer = ToyMeasurer(args.seed)

    with tempfile.TemporaryDirectory() as folder:
        # 1. Train, and look at what it did.
        start = trained(recipe, Path(folder) / "start")
        diagnosis = diagnose(open_evidence(start))
        for finding in diagnosis.at(Level.CRITICAL):
            print(f"critical: {finding.diagnostic}: {finding.reading.note}")

        # 2. How often does the gate promote what is no gain? The start against itself, before anything else is trained.
        tasks = measurer.tasks("gate")
        twins = [
            samples_of(measurer.measure(start, split="gate", tasks=tasks, samples=12, seed=twin), tasks)
            for twin in (1, 2)
        ]
        calibration = calibrate(GATE, twins, trials=100, seed=args.seed)
        print(
            f"gate: twins promoted {calibration.false_promotions:.0%}, gains from {calibration.detectable:.3f} up are seen"
        )

        # 3. One change, next to a control: the same recipe, the same seed, the same steps.
        change, because = propose(diagnosis, recipe)
        control = recipe.model_copy(update={"seed": seeds[1]})
        changed = control.model_copy(update=change)
        declared = tuple(one.field for one in changes(control, changed))
        print(f"proposal: {', '.join(map(str, changes(control, changed)))}, because of {because}")
        arms = {name: trained(one, Path(folder) / name) for name, one in (("control", control), ("child", changed))}

        # 4. The gate.
        judgement = judge(
            measurer,
            subject("control", arms["control"], control, ()),
            subject("child", arms["child"], changed, declared),
            arms,
            calibration,
            args.seed,
        )

    for reason in judgement.reasons[:2]:
        print(f"gate: {reason}")
    print(f"change: {', '.join(declared)}")
    print(f"difference: {'unknown' if judgement.difference is None else f'{judgement.difference:+.4f}'}")
    print(f"verdict: {judgement.verdict}")


if __name__ == "__main__":
    main()
