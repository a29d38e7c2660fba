"""Every attack on every rung: contained, called by its right name, and the next run is healthy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coevo.sandbox import Level, Status
from coevo.sandbox.pool import LocalSandbox

from .conftest import job
from .hostile import ATTACKS, Attack
from .hostile_ends import MORE_ATTACKS

HEALTHY = "import math, json, os\ndef f(x): return [sorted([3, 1, x]), sum([1, 2]), math.floor(2.5), json.loads('1')]"


# What only walls can stop is not tried where there are none: rlimits do not claim to.
PAIRS = [
    pytest.param(attack, level, id=f"{attack.name.replace(' ', '-')}-{level}")
    for attack in (*ATTACKS, *MORE_ATTACKS)
    for level in Level
    if level is not Level.RLIMITS or not attack.walls
]


@pytest.mark.parametrize(("attack", "level"), PAIRS)
def test_attack(
    attack: Attack, level: Level, sandboxes: Callable[[Level], LocalSandbox], where: dict[str, object]
) -> None:
    sandbox = sandboxes(level)
    execution = sandbox.run(job(attack.source, where, limits=attack.limits))
    attack.judge(execution)
    for call in execution.calls:
        assert call.file in (None, "program.py") and (call.line or 0) < 1000
    healthy = sandbox.run(job(HEALTHY, 2))
    assert healthy.status is Status.OK, healthy
    assert healthy.calls[0].value == [[1, 2, 3], 3, 2, 1]
