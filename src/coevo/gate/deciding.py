"""The gate as a fold: from all that was seen to what is to be measured next, or the verdict. Pure, and the whole order in one place.

Integrity, health and truth are asked of what training left before anything is measured, then of each look's rows; non-regression and the
gain follow; what passes them all is confirmed on the holdout. A check that raises is broken, and nothing broken is promoted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from coevo.gate.checks import contamination, health, integrity, non_regression, truth
from coevo.gate.checks.running import Stage, run, verdict_of
from coevo.gate.settings import GateConfig
from coevo.gate.testing import (
    Estimate,
    Plan,
    counts_of,
    cumulated,
    detectable,
    detectable_by,
    estimate,
    lacking,
    to_settle,
    walk,
)
from coevo.gate.types import Ask, Check, CheckName, Judgement, Look, Seen, Status, Verdict
from coevo.streams import stream_seed

BEFORE = (
    Stage(CheckName.INTEGRITY, integrity, ("splits", "sealed", "record", "base_weights", "changes")),
    Stage(CheckName.HEALTH, health, ("rows", "diagnostics")),
    Stage(CheckName.TRUTH, truth, ("rewarded_failures", "answer_source")),
    Stage(CheckName.TRUTH, contamination, ("training_data",)),
)
"""Asked before any look: they cost no sample."""

AFTER = (
    Stage(CheckName.INTEGRITY, integrity, ("samples",)),
    Stage(CheckName.HEALTH, health, ("measured",)),
    Stage(CheckName.TRUTH, truth, ("rewarded_failures", "answer_source", "gap", "format_only", "copies")),
    Stage(CheckName.NON_REGRESSION, non_regression, ("reliable_tasks",)),
)
"""Asked of the looks' rows, at every look."""


def next_step(config: GateConfig, seen: Seen) -> Ask | Judgement:
    """What to measure next for both arms, or the verdict. Never raises for what it is told: what cannot be judged is not promoted."""
    gate = [look for look in seen.looks if look.split == "gate"]
    holdout = [look for look in seen.looks if look.split == "holdout"]
    checks = run(config, seen, BEFORE)
    if seen.looks:
        done = {stage_name for stage in AFTER for stage_name in (f"{stage.name}.{f}" for f in stage.functions)}
        checks = [check for check in checks if check.name not in done] + run(config, seen, AFTER)
    forced = verdict_of(checks)
    if forced is not None:
        return _forced(config, seen, forced, checks, gate)
    if not gate:
        if (barred := _barred(config, seen)) is not None:
            return Judgement(barred[0], (barred[1],), tuple(checks), holdout_accesses=seen.holdout_accesses)
        return _ask(config, seen, "gate", 1)
    try:
        return _gain(config, seen, gate, holdout, checks)
    except Exception as e:  # The test is a check like the others: broken, it promotes nothing.
        broken = Check(str(CheckName.GAIN), Status.BROKEN, f"the test itself failed: {type(e).__name__}: {e}")
        return _judgement(seen, Verdict.UNMEASURED, [broken.reason], [*checks, broken], None, len(gate), None, None)


def holdout_level(config: GateConfig, access: int) -> float:
    """One-sided level of the k-th access to the holdout in a lab's life: 2 A / (k (k + 1)), A = `config.holdout_alpha`. The sum over all
    k is 2 A, since 1 / (k (k + 1)) = 1 / k - 1 / (k + 1): so often at most a lab confirms, ever, what is no gain."""
    return 2 * config.holdout_alpha / (access * (access + 1))


def _barred(config: GateConfig, seen: Seen) -> tuple[Verdict, str] | None:
    """Why no measurement could lead to a promotion."""
    if len(seen.tasks) < config.min_tasks:
        return (
            Verdict.UNMEASURED,
            f"the gate split has {len(seen.tasks)} tasks; {config.min_tasks} are needed (gate.min_tasks)",
        )
    if not config.holdout:
        return None
    if len(seen.holdout_tasks) < config.min_tasks:
        return (
            Verdict.UNMEASURED,
            f"the holdout has {len(seen.holdout_tasks)} tasks; {config.min_tasks} are needed, or gate.holdout off",
        )
    if seen.holdout_accesses >= config.holdout_most:
        return Verdict.INCONCLUSIVE, f"all {config.holdout_most} accesses to the holdout are used (gate.holdout_most)"
    return None


def _ask(config: GateConfig, seen: Seen, split: str, number: int) -> Ask:
    """The gate's own seeds follow from the lab's, the child's name and the look: nobody can choose them."""
    seed = stream_seed(seen.seed, "gate", seen.child.name, split, number) % 2**62
    if split == "holdout":
        level = holdout_level(config, number)
        why = f"confirm the gain; access {number} of {config.holdout_most} to the holdout, at level {level:.4f}"
        return Ask(split, number, tuple(seen.holdout_tasks), config.samples * config.looks, seed, why)
    why = f"look {number} of {config.looks}: {config.samples} fresh samples of both arms on {len(seen.tasks)} tasks"
    return Ask(split, number, tuple(seen.tasks), config.samples, seed, why)


def _gain(
    config: GateConfig, seen: Seen, gate: Sequence[Look], holdout: Sequence[Look], checks: list[Check]
) -> Ask | Judgement:
    plan = Plan.of(config, config.alpha * min(1.0, max(0.0, seen.share)))
    paths = cumulated(gate, seen.tasks)
    seed = stream_seed(seen.seed, "gate test", seen.child.name) % 2**63
    goal = _goal(config, seen)
    verdict, look, why = walk(config, plan, paths, goal=goal, seed=seed)
    if verdict is Verdict.PROMOTED:
        verdict, look, why = _however(config, plan, gate, seen.tasks, (verdict, look, why), goal=goal, seed=seed)
    if verdict is None:
        return _ask(config, seen, "gate", len(gate) + 1)
    found = estimate(plan, paths[:, :look], seed=seed)
    worth = goal if goal is not None else detectable_by(config, plan, paths[:, :look])
    status = Status.PASSED if verdict is Verdict.PROMOTED else Status.FAILED
    numbers = {"difference": found.difference, "p": found.p, "alpha": plan.alpha, "look": float(look)}
    checks = [*checks, Check(str(CheckName.GAIN), status, why, numbers)]
    reasons = [f"{_say(found)} at look {look} of {plan.looks}: {why}"]
    if verdict is not Verdict.PROMOTED or not config.holdout:
        needed = (
            to_settle(config, plan, found, max(worth, config.min_gain)) if verdict is Verdict.INCONCLUSIVE else None
        )
        return _judgement(seen, verdict, reasons, checks, found, look, worth, needed)
    if not holdout:
        if (barred := _barred(config, seen)) is not None:
            return _judgement(seen, barred[0], [*reasons, barred[1]], checks, found, look, worth, None)
        return _ask(config, seen, "holdout", seen.holdout_accesses + 1)
    return _confirm(config, seen, holdout[-1], checks, reasons, found, look, worth)


def _however(
    config: GateConfig,
    plan: Plan,
    looks: Sequence[Look],
    tasks: Sequence[str],
    said: tuple[Verdict | None, int, str],
    *,
    goal: float | None,
    seed: int,
) -> tuple[Verdict | None, int, str]:
    """A promotion holds where it does even if every sample that the child lacks had failed. Who lacks few may still lack just what failed: that alone
    promoted twins in up to 8 of 10 trials, unseen by a check of how many are missing. None: another look may tell."""
    if not (lost := lacking(looks)):
        return said
    verdict, look, why = walk(config, plan, cumulated(looks, tasks, worst=True), goal=goal, seed=seed)
    if verdict is Verdict.PROMOTED:
        return verdict, look, f"{why}, the {lost} samples that the child lacks counted as failures"
    if verdict is None:
        return verdict, look, why
    return (
        Verdict.INCONCLUSIVE,
        look,
        f"{lost} samples that the child lacks may be what failed; counted so, its gain is not certain",
    )


def _confirm(
    config: GateConfig,
    seen: Seen,
    holdout: Look,
    checks: list[Check],
    reasons: list[str],
    found: Estimate,
    look: int,
    worth: float,
) -> Judgement:
    """One look at the holdout, one-sided. The count of accesses is the larger of the look's own and the lab's: a driver that numbers its looks
    anew cannot loosen the level."""
    access = max(holdout.number, seen.holdout_accesses, 1)
    plan = Plan.of(config, holdout_level(config, access), looks=1)
    paths = cumulated([holdout], seen.holdout_tasks)
    seed = stream_seed(seen.seed, "gate test", seen.child.name, "holdout") % 2**63
    verdict, _, why = walk(config, plan, paths, goal=worth, seed=seed)
    if verdict is Verdict.PROMOTED:
        said = verdict, 1, why
        verdict, _, why = _however(config, plan, [holdout], seen.holdout_tasks, said, goal=worth, seed=seed)
    if access > config.holdout_most:
        verdict, why = Verdict.INCONCLUSIVE, f"access {access} to the holdout; {config.holdout_most} are allowed"
    confirmed = estimate(plan, paths, seed=seed)
    status = Status.PASSED if verdict is Verdict.PROMOTED else Status.FAILED
    numbers = {"difference": confirmed.difference, "p": confirmed.p, "alpha": plan.alpha, "access": float(access)}
    checks = [*checks, Check(str(CheckName.HOLDOUT), status, why, numbers)]
    word = "confirmed" if verdict is Verdict.PROMOTED else "not confirmed"
    reasons = [*reasons, f"{word} on the holdout (access {access}, level {plan.alpha:.4f}): {_say(confirmed)}; {why}"]
    needed = (
        to_settle(config, plan, confirmed, max(worth, config.min_gain)) if verdict is Verdict.INCONCLUSIVE else None
    )
    return _judgement(seen, verdict or Verdict.INCONCLUSIVE, reasons, checks, found, look, worth, needed)


def _goal(config: GateConfig, seen: Seen) -> float | None:
    """The gain that a rejection excludes: what the gate was calibrated to see."""
    if seen.calibration is None:
        return None
    return detectable(config, seen.calibration.noise, len(seen.tasks), share=min(1.0, max(1e-6, seen.share)))


def _forced(
    config: GateConfig, seen: Seen, verdict: Verdict, checks: Sequence[Check], gate: Sequence[Look]
) -> Judgement:
    """A verdict without the test's word; what was measured is reported all the same where it can be."""
    bad = (Status.FAILED, Status.BROKEN, Status.UNMEASURED)
    reasons = [f"{check.name}: {check.reason}" for check in checks if check.status in bad]
    sound = any(check.name == "integrity.samples" and check.status is Status.PASSED for check in checks)
    found = goal = None
    if gate and sound:
        try:
            plan, goal = Plan.of(config, config.alpha), _goal(config, seen)
            seed = stream_seed(seen.seed, "gate test", seen.child.name) % 2**63
            found = estimate(plan, cumulated(gate, seen.tasks), seed=seed)
        except Exception as e:  # The verdict stands without the numbers.
            reasons.append(f"the difference could not be computed: {type(e).__name__}: {e}")
    return _judgement(seen, verdict, reasons, checks, found, len(gate), goal, None)


def _judgement(
    seen: Seen,
    verdict: Verdict,
    reasons: Sequence[str],
    checks: Sequence[Check],
    found: Estimate | None,
    looks: int,
    worth: float | None,
    needed: int | None,
) -> Judgement:
    unchecked = [f"{check.name}: {check.reason}" for check in checks if check.status is Status.UNKNOWN]
    sound = found is not None
    lost = (
        [sum(counts) for counts in zip(*(counts_of(look.child) for look in seen.looks), strict=True)] if sound else []
    )
    known = found if found is not None and found.tasks else None
    return Judgement(
        verdict=verdict,
        reasons=(*reasons, *unchecked, *((f"{lost[1]} of {lost[0]} samples unmeasured",) if lost and lost[1] else ())),
        checks=tuple(checks),
        difference=known.difference if known else None,
        low=_finite(known.low) if known else None,
        high=_finite(known.high) if known else None,
        p=known.p if known else None,
        tasks=found.tasks if found else 0,
        looks=looks,
        detectable=_finite(worth),
        to_settle=needed,
        holdout_accesses=seen.holdout_accesses,
    )


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity: a bound that the plan cannot state yet is None."""
    return value if value is not None and math.isfinite(value) else None


def _say(found: Estimate) -> str:
    return f"difference {found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p {found.p:.4f}, {found.tasks} tasks"
