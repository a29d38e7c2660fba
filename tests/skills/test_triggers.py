"""Triggers of a shelf asked at once say what each says alone."""

from __future__ import annotations

from dataclasses import replace

from coevo.skills.running import Scripts
from coevo.skills.store import shipped
from coevo.skills.types import Fault

DIAGNOSIS = {"findings": {name: {"level": "critical", "value": 1.0} for name in ("copies-of-parent", "dead-groups")}}


def test_all_at_once_say_what_each_says_alone() -> None:
    with Scripts() as scripts:
        together = scripts.triggers(shipped(), DIAGNOSIS)
        assert together == [scripts.fires(skill, DIAGNOSIS) for skill in shipped()]
        assert any(trigger.fires for trigger in together)


def test_a_fault_among_many_is_its_own() -> None:
    wrong = {"findings": []}
    with Scripts() as scripts:
        found = scripts.triggers(shipped(), wrong)
    assert {trigger.failure.fault for trigger in found if trigger.failure} == {Fault.CRASHED}
    assert not any(trigger.fires for trigger in found)


def test_one_without_a_trigger_is_missing_it_and_the_others_answer() -> None:
    first, *others = shipped()
    bare = replace(first, files={name: text for name, text in first.files.items() if name != "scripts/trigger.py"})
    with Scripts() as scripts:
        found = scripts.triggers([bare, *others], DIAGNOSIS)
        assert found[0].failure is not None and found[0].failure.fault is Fault.MISSING
        assert found[1:] == scripts.triggers(others, DIAGNOSIS)
