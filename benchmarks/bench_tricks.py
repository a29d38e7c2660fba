"""Two ways to luck, measured: many null changes over a whole lab, and samples that are missing where they would have failed.

python benchmarks/bench_tricks.py labs --labs 60          with the holdout; --no-holdout without
python benchmarks/bench_tricks.py missing                 what the gate would promote of twins without its worst case, and with it
"""

from __future__ import annotations

import argparse

import numpy as np

from coevo.gate.checks.tables import by_luck
from coevo.gate.deciding import next_step
from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan, cumulated, walk
from coevo.gate.types import Ask, Look, Seen, Subject, Verdict
from coevo.streams import array_stream

SAMPLES = 12


def lab(number: int, config: GateConfig, rounds: int, children: int, tasks: int) -> int:
    """False promotions of a lab whose every branch is its yardstick's twin; the first round's control included."""
    rng = array_stream(5, "lab", number)
    names = {split: tuple(f"{split}{i}" for i in range(tasks)) for split in ("gate", "holdout")}
    rate = {task: rng.beta(0.35, 0.68) for some in names.values() for task in some}
    accesses = false = 0
    for turn in range(rounds):
        for child in range(children + 1):
            arms = Subject("parent"), Subject(f"b{turn}.{child}")
            share = 1 / children if child else 1.0
            seen = Seen(*arms, names["gate"], names["holdout"], (), accesses, None, number, share)
            while isinstance(step := next_step(config, seen), Ask):
                looks = [
                    {t: tuple((rng.random(step.samples) < rate[t]).astype(float)) for t in step.tasks} for _ in arms
                ]
                accesses += step.split == "holdout"
                look = Look(step.split, step.number, looks[0], looks[1])
                seen = seen._replace(looks=(*seen.looks, look), holdout_accesses=accesses)
            false += step.verdict is Verdict.PROMOTED
    return false


def unseen(samples: int, gone: int, limit: float = 0.1) -> int:
    """Samples that a child may lack, where its parent lacks `gone`, before the gate's check of missing samples speaks."""
    lost = gone
    while (lost + 1) / samples <= limit:
        p = 2 * min(by_luck(lost + 1, samples, gone, samples), by_luck(gone, samples, lost + 1, samples))
        if p < 0.01:
            break
        lost += 1
    return lost


def missing(rng: np.random.Generator, tasks: int, gone: int, lost: int, beta: tuple[float, float]) -> tuple[bool, bool]:
    """Whether the gate's test (one look at 0.05) takes a twin for better that lacks `lost` failures, chosen where each counts most: as measured; and
    with what it lacks counted as failures, too."""
    rate = rng.beta(*beta, tasks)[:, None]
    parent, child = ((rng.random((tasks, SAMPLES)) < rate).astype(float) for _ in range(2))
    parent.ravel()[rng.choice(parent.size, gone, replace=False)] = np.nan
    for _ in range(lost):
        left, right = np.isfinite(child).sum(1), np.nansum(child, 1)
        gain = np.where(((child == 0).any(1)) & (left > 1), right / np.maximum(left - 1, 1) - right / left, -1.0)
        task = int(gain.argmax())
        if gain[task] <= 0:
            break
        child[task, np.flatnonzero(child[task] == 0)[0]] = np.nan
    names = [str(i) for i in range(tasks)]
    arms = [
        {n: tuple(None if np.isnan(v) else float(v) for v in row) for n, row in zip(names, arm, strict=True)}
        for arm in (parent, child)
    ]
    look = Look("gate", 1, arms[0], arms[1])
    config = GateConfig(looks=1, holdout=False, futility=0)
    plan = Plan.of(config, config.alpha)
    seed = int(rng.integers(2**62))
    taken = [
        walk(config, plan, cumulated([look], names, worst=worst), goal=None, seed=seed)[0] is Verdict.PROMOTED
        for worst in (False, True)
    ]
    return taken[0], all(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("labs", "missing"))
    parser.add_argument("--labs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=48)
    parser.add_argument("--no-holdout", action="store_true")
    parser.add_argument("--trials", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "labs":
        config = GateConfig(holdout=not given.no_holdout)
        found = [lab(i, config, given.rounds, given.children, given.tasks) for i in range(given.labs)]
        print(f"{sum(count > 0 for count in found)} of {given.labs} labs promoted a twin")
        return
    for tasks in (12, 48):
        for beta in ((0.35, 0.68), (0.68, 0.35)):
            for gone in (0, round(0.03 * tasks * SAMPLES)):
                lost = unseen(tasks * SAMPLES, gone)
                rng = array_stream(0, "missing", tasks, gone)
                hits = np.mean([missing(rng, tasks, gone, lost, beta) for _ in range(given.trials)], axis=0)
                print(
                    f"{tasks} tasks, mean {beta[0] / sum(beta):.2f}: parent lacks {gone}, child {lost} of {tasks * SAMPLES}: "
                    f"promoted {hits[0]:.3f}, as failures {hits[1]:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
