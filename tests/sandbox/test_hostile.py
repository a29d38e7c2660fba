"""Every attack on every rung: contained, called by its right name, and the next run is healthy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coevo.sandbox import Level, Status
from coevo.sandbox.pool import LocalSandbox

from .conftest import job
from .hostile import ATTACKS, Attack

HEALTHY = "import math, json, os\ndef f(x): return [sorted([3, 1, x]), sum([1, 2]), math.floor(2.5), json.loads('1')]"


@pytest.mark.parametrize("level", list(Level), ids=str)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_attack(
    attack: Attack, level: Level, sandboxes: Callable[[Level], LocalSandbox], where: dict[str, object]
) -> None:
    if level is Level.RLIMITS and attack.walls:
        return  # what only walls can stop; rlimits do not claim to
    sandbox = sandboxes(level)
    attack.judge(sandbox.run(job(attack.source, where, limits=attack.limits)))
    healthy = sandbox.run(job(HEALTHY, 2))
    assert healthy.status is Status.OK, healthy
    assert healthy.calls[0].value == [[1, 2, 3], 3, 2, 1]
