"""Was there a training run to speak of, and did it break something the parent's did not."""

from __future__ import annotations

import numpy as np

from coevo.diagnostics.types import Finding, Layer, Level
from coevo.evidence.types import Frame
from coevo.gate.checks.integrity import has_reason
from coevo.gate.checks.running import failed, passed, unknown, unmeasured
from coevo.gate.checks.tables import by_luck
from coevo.gate.settings import GateConfig
from coevo.gate.testing import counts_of, cumulated
from coevo.gate.types import Check, Seen

UNREAL = frozenset(
    {
        *("reward-truth-gap", "public-hidden-gap", "format-meaning-gap"),
        *("copies-of-parent", "copies-of-tests", "answer-source"),
    }
)
"""Diagnostics, beside those of measurement, that say that a score is not what it looks like. A reward that orders replies badly
(`reward-truth-agreement`, `unfaithful-part`) is none of them: it is a bad teacher, the gate measures truth itself, and of a policy that has
learnt its tasks only noise is left to order."""


def rows(config: GateConfig, seen: Seen) -> Check:
    """The child's training left rows, and no more of them unmeasured than allowed."""
    frame = seen.child.training
    if frame is None:
        if "training" in seen.promised:
            return failed("training missing: no rollouts of the child's training")
        return unknown("not checked: no rollouts of the child's training")
    if frame.rows == 0:
        return failed("the child's training left no rollouts")
    share = float(has_reason(frame).mean())
    if share > config.unmeasured:
        return unmeasured(f"{share:.0%} of the training rollouts are unmeasured", share=share, limit=config.unmeasured)
    return passed(f"{frame.rows} training rollouts, {share:.1%} unmeasured", rows=frame.rows, share=share)


def diagnostics(config: GateConfig, seen: Seen) -> Check:
    """Nothing that makes a gain unreal is critical on the child's training and was not on the parent's.

    Held against a child: all diagnostics of measurement, and `UNREAL`. Others are listed only: dead groups and a low entropy say how training may
    go on (a child that has learned everything looks like that), and how good the policy is, the gate measures itself. Both arms are diagnosed
    alone, since a child begins where its parent ended. Without a parent's training nobody knows what is new: then measurement alone counts.
    """
    child, parent = seen.child.training, seen.parent.training
    if child is None or child.rows == 0:
        return unknown("not checked: no rollouts of the child's training")
    critical = _critical(child)
    known = {f.diagnostic for f in _critical(parent)} if parent is not None and parent.rows else set(UNREAL)
    new = [f for f in critical if f.diagnostic not in known]
    held = [f for f in new if f.layer is Layer.MEASUREMENT or f.diagnostic in UNREAL]
    if held:
        said = "; ".join(f"{f.diagnostic} ({f.reading.note})" for f in held[:3])
        return failed(f"newly critical: {said}", critical=len(held))
    listed = f"; critical and not held against it: {', '.join(f.diagnostic for f in new)}" if new else ""
    return passed(f"no diagnostic that makes a gain unreal is newly critical{listed}", critical=len(critical))


def measured(config: GateConfig, seen: Seen) -> Check:
    """Of the samples so far, few are unmeasured in either arm, no more in one than in the other, and enough tasks have both.

    What is missing more often in one arm may be just what failed there: then nothing is said.
    """
    for split, tasks in (("gate", seen.tasks), ("holdout", seen.holdout_tasks)):
        looks = [look for look in seen.looks if look.split == split]
        if not looks:
            continue
        (n, gone), (m, lost) = (
            tuple(map(sum, zip(*(counts_of(look.parent if arm == 0 else look.child) for look in looks), strict=True)))
            for arm in (0, 1)
        )
        numbers = {"parent": gone / max(n, 1), "child": lost / max(m, 1), "limit": config.unmeasured}
        where = f"{split} looks: {gone} of {n} samples of the parent and {lost} of {m} of the child are unmeasured"
        if max(numbers["parent"], numbers["child"]) > config.unmeasured:
            return unmeasured(f"{where}, over the limit of {config.unmeasured:.0%}", **numbers)
        if 2 * min(by_luck(gone, n, lost, m), by_luck(lost, m, gone, n)) < 0.01:
            return unmeasured(f"{where}: what is missing depends on the arm, and may be what failed", **numbers)
        both = int(np.isfinite(cumulated(looks, tasks)[:, -1]).sum())
        if both < config.min_tasks:
            return unmeasured(
                f"{both} {split} tasks are measured in both arms; {config.min_tasks} are needed", tasks=both
            )
    return passed("enough samples of both arms are measured")


def _critical(frame: Frame) -> tuple[Finding, ...]:
    """Asked at every look and verdict, of the same rollouts."""
    from coevo.diagnostics.diagnose import diagnose

    return frame.once("gate.health.critical", lambda: diagnose(frame).at(Level.CRITICAL))
