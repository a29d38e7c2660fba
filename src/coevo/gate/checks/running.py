"""Runs checks, and fails closed: what raises is broken, and nothing broken is ever promoted."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from coevo.gate.settings import GateConfig
from coevo.gate.types import Check, CheckName, Seen, Status, Verdict


class Stage(NamedTuple):
    """Checks of one kind: the functions of `module` that are named."""

    name: CheckName
    module: ModuleType
    functions: tuple[str, ...]


def run(config: GateConfig, seen: Seen, stages: Sequence[Stage]) -> list[Check]:
    """Every check of these stages, in order; none is spared because another has failed, so that a verdict names all its reasons."""
    return [_one(config, seen, stage, function) for stage in stages for function in stage.functions]


def _one(config: GateConfig, seen: Seen, stage: Stage, function: str) -> Check:
    name = f"{stage.name}.{function}"
    try:
        found = getattr(stage.module, function)(config, seen)
        if not isinstance(found, Check) or not isinstance(found.status, Status):
            raise TypeError(f"a check returns a Check, not {found!r:.80}")
        return found._replace(name=name)
    except Exception as e:  # Whatever it is: a check that says nothing must not be taken for one that passed.
        return Check(name, Status.BROKEN, f"the check itself failed: {type(e).__name__}: {e}")


def verdict_of(checks: Sequence[Check]) -> Verdict | None:
    """The verdict that these checks force; None if they let a gain be looked for.

    A failed check makes the child invalid (of non-regression: rejected). A broken one is our fault, not the child's, so the child is unmeasured.
    """
    failed = [check.name.partition(".")[0] for check in checks if check.status is Status.FAILED]
    if any(name != CheckName.NON_REGRESSION for name in failed):
        return Verdict.INVALID
    if any(check.status in (Status.BROKEN, Status.UNMEASURED) for check in checks):
        return Verdict.UNMEASURED
    return Verdict.REJECTED if failed else None


def passed(reason: str, **numbers: float) -> Check:
    return Check("", Status.PASSED, reason, numbers)


def failed(reason: str, **numbers: float) -> Check:
    return Check("", Status.FAILED, reason, numbers)


def unmeasured(reason: str, **numbers: float) -> Check:
    return Check("", Status.UNMEASURED, reason, numbers)


def unknown(reason: str, **numbers: float) -> Check:
    return Check("", Status.UNKNOWN, reason, numbers)


def absent(seen: Seen, what: str, parent: bool, child: bool) -> Check | None:
    """None if both arms carry `what`; failed where it was promised or one arm alone has it; else unknown."""
    if parent and child:
        return None
    arms = " and ".join(s.name for s, has in ((seen.parent, parent), (seen.child, child)) if not has)
    if what in seen.promised or parent or child:
        return failed(f"{what} missing for {arms}")
    return unknown(f"not checked: neither arm says its {what}")
