"""Is it what it says it is: the same judge and splits, weights from where they may come, one declared change, samples as asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from coevo.evidence.types import Frame
from coevo.gate.checks.running import absent, failed, passed
from coevo.gate.settings import GateConfig
from coevo.gate.types import Check, Seen

WEIGHTS = "weights"
"""In `declared`: another starting point."""
SEEDS = frozenset({"seed", "seeds", "data_seed", "random_seed", "shuffle", "shuffle_seed", "order", "eval_order"})
"""Last parts of leaves that choose luck, not substance."""
_ABSENT = object()


def splits(config: GateConfig, seen: Seen) -> Check:
    """Selection and confirmation never share a task, with each other or with training."""
    gate, holdout = set(seen.tasks), set(seen.holdout_tasks)
    if shared := gate & holdout:
        return failed(f"tasks of both the gate and the holdout split: {_some(shared)}", shared=len(shared))
    if len(gate) != len(seen.tasks) or len(holdout) != len(seen.holdout_tasks):
        return failed("a task is listed twice in a split")
    trained = _tasks_of(seen.child.training) & (gate | holdout)
    if trained:
        return failed(f"trained on tasks of the gate or the holdout: {_some(trained)}", trained=len(trained))
    return passed(f"{len(gate)} gate and {len(holdout)} holdout tasks, none shared, none trained on")


def sealed(config: GateConfig, seen: Seen) -> Check:
    """Judge, splits, gate settings and budget are the parent's, by hash."""
    before, after = seen.parent.sealed, seen.child.sealed
    if (gap := absent(seen, "sealed", bool(before), bool(after))) is not None:
        return gap
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        return failed(f"sealed, and not the parent's: {_some(changed)}", changed=len(changed))
    return passed(f"{len(before)} sealed hashes agree")


def record(config: GateConfig, seen: Seen) -> Check:
    """What training left is what was recorded when it ended: weights that are measured, rollouts that are read. Of both arms: a parent made
    worse is a child made better."""
    parent, child = seen.parent, seen.child
    if (gap := absent(seen, "record", bool(parent.recorded), bool(child.recorded))) is not None:
        return gap
    for arm in (parent, child):
        if changed := [name for name, digest in arm.recorded.items() if arm.found.get(name) != digest]:
            return failed(f"{_some(changed)} of {arm.name} changed after its training had ended", changed=len(changed))
    return passed("weights and rollouts of both arms are those that training left")


def base_weights(config: GateConfig, seen: Seen) -> Check:
    """Training started from weights it may start from."""
    child, parent = seen.child, seen.parent
    origins = set(child.origins) or ({parent.base_weights} - {""})
    if (gap := absent(seen, "base_weights", bool(origins), bool(child.base_weights))) is not None:
        return gap
    if child.base_weights not in origins:
        return failed(f"started from weights {child.base_weights[:12]}, not from {_some(o[:12] for o in origins)}")
    return passed(f"started from weights {child.base_weights[:12]}")


def changes(config: GateConfig, seen: Seen) -> Check:
    """What differs from the parent is what was declared: one thing, allowed, and not a seed."""
    parent, child = seen.parent, seen.child
    if (gap := absent(seen, "recipe", bool(parent.recipe), bool(child.recipe))) is not None:
        return gap
    promised_files = "files" in seen.promised and not (parent.files and child.files)
    if promised_files:
        return failed("files missing: the hashes of the harness were promised")
    differing = dict(changed_leaves(parent.recipe, child.recipe))
    lucky = sorted(name for name, (a, b) in differing.items() if _is_luck(name, a, b))
    changed = sorted(set(differing) - set(lucky)) + sorted(_changed_files(parent.files, child.files))
    declared = child.declared
    numbers = {"changed": float(len(changed)), "seeds": float(len(lucky))}
    if any(_is_luck(name, None, None) for name in declared or ()):
        return failed("a seed was declared as the change; luck is no improvement", **numbers)
    if lucky and not changed and declared != () and WEIGHTS not in (declared or ()):
        return failed(f"only seeds or an order changed ({_some(lucky)}); luck is no improvement", **numbers)
    if lucky and declared:
        return failed(f"a seed or an order changed beside what was declared: {_some(lucky)}", **numbers)
    if child.allowed is not None:
        forbidden = [name for name in changed if not any(fnmatchcase(name, p) for p in child.allowed)]
        if forbidden:
            return failed(f"changed what may not change: {_some(forbidden)}", **numbers)
    if declared is None:
        if len(changed) > 1:
            return failed(f"{len(changed)} things changed, and no bundle was declared: {_some(changed)}", **numbers)
        return passed(f"one thing changed: {changed[0]}" if changed else "nothing changed", **numbers)
    wanted = {name for name in declared if name != WEIGHTS}
    undeclared = [name for name in changed if not _covered(name, wanted)]
    unmade = [name for name in sorted(wanted) if not any(_covered(done, {name}) for done in changed)]
    if undeclared or unmade:
        parts = [f"not declared: {_some(undeclared)}"] * bool(undeclared)
        parts += [f"declared and not changed: {_some(unmade)}"] * bool(unmade)
        return failed("; ".join(parts), **numbers)
    return passed(f"changed as declared: {_some(changed) or 'nothing'}", **numbers)


def samples(config: GateConfig, seen: Seen) -> Check:
    """Each look holds what was asked for: both arms, all its tasks, as many samples, each a number or None; and the rows behind it say
    the same. Samples that are simply not there are the ones somebody filtered."""
    expected = {"gate": 0}
    for look in seen.looks:
        if look.split not in ("gate", "holdout"):
            return failed(f"a look at split {look.split!r}, which is not the gate's")
        if look.split == "gate":
            expected["gate"] += 1
            if look.number != expected["gate"]:
                return failed(f"gate look {look.number} where look {expected['gate']} was asked for")
        wanted = seen.tasks if look.split == "gate" else seen.holdout_tasks
        count = config.samples * (1 if look.split == "gate" else config.looks)
        where = f"{look.split} look {look.number}"
        for arm, values, frame in (
            (seen.parent.name, look.parent, look.parent_frame),
            (seen.child.name, look.child, look.child_frame),
        ):
            problem = _problem(values, wanted, count)
            if not problem and frame is None and "rows" in seen.promised:
                problem = "the rows behind its numbers were promised and are missing"
            if not problem and frame is not None:
                problem = _disagreement(frame, values)
            if problem:
                return failed(f"{where}, {arm}: {problem}")
    if expected["gate"] > config.looks:
        return failed(f"{expected['gate']} gate looks; the plan has {config.looks}")
    return passed(f"{len(seen.looks)} looks hold all that was asked for")


def changed_leaves(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """(dotted name, (before, after)) of every leaf that differs; a leaf is whatever is no mapping."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            inner = f"{name}.{key}" if name else str(key)
            yield from changed_leaves(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
    elif isinstance(before, Mapping) and before and after is _ABSENT:
        yield from changed_leaves(before, {}, name)
    elif isinstance(after, Mapping) and after and before is _ABSENT:
        yield from changed_leaves({}, after, name)
    elif _plain(before) != _plain(after):
        yield name, (before, after)


def _plain(value: Any) -> Any:
    """Lists and tuples alike, as after a round trip through YAML or JSON."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_luck(name: str, before: Any, after: Any) -> bool:
    """A seed, or the same items in another order."""
    if name.rsplit(".", 1)[-1] in SEEDS:
        return True
    if not (isinstance(before, list | tuple) and isinstance(after, list | tuple)):
        return False
    return Counter(map(repr, before)) == Counter(map(repr, after))


def _covered(name: str, declared: set[str]) -> bool:
    """A declared mapping ("reward.parts") covers its leaves."""
    return any(name == other or name.startswith(f"{other}.") for other in declared)


def _changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]


def _problem(values: Mapping[str, tuple[float | None, ...]], wanted: Any, count: int) -> str:
    missing = [task for task in wanted if task not in values]
    extra = [task for task in values if task not in set(wanted)]
    if missing or extra:
        return f"tasks missing: {_some(missing)}" if missing else f"tasks nobody asked for: {_some(extra)}"
    wrong = [task for task in wanted if len(values[task]) != count]
    if wrong:
        found = len(values[wrong[0]])
        return (
            f"{found} samples of task {wrong[0]!r}, not {count}; one that could not be measured is None, not left out"
        )
    odd = [t for t in wanted if any(v is not None and not (_number(v) and math.isfinite(v)) for v in values[t])]
    return f"a sample of task {odd[0]!r} is no number" if odd else ""


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating | np.integer)


def _disagreement(frame: Frame, values: Mapping[str, tuple[float | None, ...]]) -> str:
    """How the rows behind a look contradict its numbers; "" if they do not."""
    codes, names = frame.words("task")
    truth = frame.numbers("truth")
    measured = np.isfinite(truth) & ~has_reason(frame)
    rows = np.bincount(codes[codes >= 0], minlength=len(names))
    sums = np.bincount(codes[measured & (codes >= 0)], weights=truth[measured & (codes >= 0)], minlength=len(names))
    by_name = {name: i for i, name in enumerate(names)}
    for task, samples in values.items():
        i = by_name.get(task)
        count = int(rows[i]) if i is not None else 0
        if count != len(samples):
            return f"{len(samples)} samples of task {task!r}, and {count} rows behind them"
        total = math.fsum(v for v in samples if v is not None)
        if i is None or abs(total - float(sums[i])) > 1e-6 * max(1.0, abs(total)):
            return f"samples of task {task!r} are not the truth of the rows behind them (rows with a reason count as unmeasured)"
    return ""


def has_reason(frame: Frame) -> np.ndarray:
    """bool of (rows,): rows that say why they could not be measured."""
    codes, values = frame.words("unmeasured_reason")
    return np.isin(codes, [i for i, value in enumerate(values) if value])


def _tasks_of(frame: Frame | None) -> set[str]:
    if frame is None:
        return set()
    codes, values = frame.words("task")
    return {values[i] for i in np.unique(codes[codes >= 0])}


def _some(names: Any, most: int = 4) -> str:
    """The first few of some names."""
    listed = sorted(str(name) for name in names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
