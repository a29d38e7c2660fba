"""Scripts as processes: what they say, and that a broken one is data that never fires."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from coevo.sandbox import Level, SandboxConfig
from coevo.skills.reading import read_skill
from coevo.skills.running import Scripts, fires, plain
from coevo.skills.store import shipped
from coevo.skills.types import Fault, Outcome
from tests.skills.making import diagnosis, findings, skill_folder

ESCAPE = """import json, os, sys, pathlib
found = []
for path in ("/etc/hostname", "/work", str(pathlib.Path.home() / ".ssh")):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
        found.append(path)
    except OSError:
        pass
try:
    open("/tmp/../var/left-behind", "w").write("x")
    found.append("wrote")
except OSError:
    pass
try:
    import socket
    socket.create_connection(("127.0.0.1", 22), 1)
    found.append("net")
except OSError:
    pass
print(json.dumps({"fires": False, "why": "|".join(found) + "|" + ",".join(sorted(k for k in os.environ if "SECRET" in k))}))
"""


def test_a_foreign_skill_answers_in_the_sandbox(tmp_path: Path, scripts: Scripts) -> None:
    skill = read_skill(skill_folder(tmp_path))
    assert not scripts.is_own(skill)
    assert scripts.fires(skill, diagnosis(dead_groups="critical")) == (True, "dead groups", None)
    assert not scripts.fires(skill, diagnosis(dead_groups="warn")).fires
    patch = scripts.patch_of(skill, {"lr": 0.5}, diagnosis(dead_groups="critical"))
    assert (dict(patch.sets), patch.why, patch.failure) == ({"lr": 0.25}, "halve it", None)
    said = scripts.verify(skill, diagnosis(dead_groups="critical"), diagnosis(dead_groups="ok"), truth=(0.1, math.nan))
    assert (said.word, said.failure) == (Outcome.HELPED, None)


def test_a_foreign_script_reaches_nothing(tmp_path: Path, scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    skill = read_skill(skill_folder(tmp_path, {"scripts/trigger.py": ESCAPE}))
    assert scripts.fires(skill, findings()) == (False, "|", None)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("raise ValueError('broken')", Fault.CRASHED),
        ("import sys; print('{\"fires\": true}'); sys.exit(3)", Fault.CRASHED),
        ("import os; os.abort()", Fault.CRASHED),
        ("while True: pass", Fault.SLOW),
        ("print('x' * 10_000_000)", Fault.TOO_LONG),
        ("", Fault.NOT_JSON),
        ("print('yes')", Fault.NOT_JSON),
        ("print('[' * 5000)", Fault.NOT_JSON),
        ("print('{\"fires\": NaN}')", Fault.NOT_JSON),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", Fault.NOT_JSON),
        ("print('[true]')", Fault.MALFORMED),
        ('print(\'{"fires": 1, "why": ""}\')', Fault.MALFORMED),
        ('print(\'{"fires": "true"}\')', Fault.MALFORMED),
        ('print(\'{"fires": true, "why": 3}\')', Fault.MALFORMED),
    ],
)
def test_a_broken_trigger_never_fires(tmp_path: Path, script: str, fault: Fault) -> None:
    skill = read_skill(skill_folder(tmp_path, {"scripts/trigger.py": script, "scripts/verify.py": script}))
    with Scripts(timeout_s=0.5 if fault is Fault.SLOW else 5.0) as quick:
        said = quick.fires(skill, findings(dead_groups="critical"))
        assert not said.fires and said.failure is not None and said.failure.fault is fault
        assert "scripts/trigger.py" in said.failure.message
        word = quick.verify(skill, findings(), findings())
        assert word.word is Outcome.INVALID and word.failure is not None
        if fault is Fault.CRASHED:
            report = quick.cases(skill)
            assert not report.hold and report.measured


@pytest.mark.parametrize(
    "said",
    [
        "{'sets': 3}",
        "{'sets': {'': 1}}",
        "{'sets': {'a..b': 1}}",
        "{'sets': {'a': float('nan')}}",
        "{'sets': {str(i) + 'x': 1 for i in range(9)}}",
        "{'files': {'../../etc/passwd': 'x'}}",
        "{'files': {'/etc/passwd': 'x'}}",
        "{'files': {'a.py': 3}}",
        "{'sets': {}, 'run': 'rm'}",
        "{'sets': {'a': [[[[[[[[1]]]]]]]]}}",
        "{'why': 3}",
        "{'sets': {'a': chr(0xd800)}}",
        "{'files': {'a.py': chr(0xd800)}}",
    ],
)
def test_a_patch_that_is_none_changes_nothing(tmp_path: Path, scripts: Scripts, said: str) -> None:
    script = f"import json\nprint(json.dumps({said}))\n"
    skill = read_skill(skill_folder(tmp_path, {"scripts/apply.py": script}))
    patch = scripts.patch_of(skill, {}, findings())
    assert patch.empty and patch.failure is not None
    assert patch.failure.fault in (Fault.MALFORMED, Fault.NOT_JSON)


def test_a_word_that_cannot_be_stored_is_made_one_that_can(tmp_path: Path, scripts: Scripts) -> None:
    script = "import json\nprint(json.dumps({'fires': True, 'why': chr(0xd800) + '\\n' + 'x' * 9999}))\n"
    why = scripts.fires(read_skill(skill_folder(tmp_path, {"scripts/trigger.py": script})), findings()).why
    assert why.encode() and why.startswith("? x") and len(why) == 2000


def test_a_patch_that_is_data_needs_no_script(tmp_path: Path, scripts: Scripts) -> None:
    texts = {"scripts/apply.py": None, "assets/patch.yaml": "sets: {loss.kl: 0.1, toy.levels: null}\nwhy: hold it\n"}
    skill = read_skill(skill_folder(tmp_path, texts))
    assert scripts.patch_of(skill, {}, findings()) == ({"loss.kl": 0.1, "toy.levels": None}, "hold it", {}, None)


def test_what_was_checked_is_what_runs(tmp_path: Path, scripts: Scripts) -> None:
    folder = skill_folder(tmp_path)
    skill = read_skill(folder)
    (folder / "scripts/trigger.py").write_text("raise SystemExit(9)\n")
    assert scripts.fires(skill, findings(dead_groups="critical")).fires


def test_own_skills_run_as_plain_processes_without_any_sandbox() -> None:
    nowhere = SandboxConfig(level=Level.BUBBLEWRAP, minimum=Level.NAMESPACES)
    skill = next(skill for skill in shipped() if skill.name == "learning-rate-brake")
    with Scripts(nowhere) as runner:
        assert runner.is_own(skill)
        assert runner.fires(skill, findings(learning_rate_too_high="critical")).fires
        assert dict(runner.patch_of(skill, {"lr": 1e-3}, findings()).sets) == {"lr": 1e-4}


def test_a_copy_of_an_own_skill_with_one_letter_changed_is_foreign(tmp_path: Path, scripts: Scripts) -> None:
    from coevo.skills.store import copy_skill

    own = next(skill for skill in shipped() if skill.name == "copy-trap")
    copied = copy_skill(own, tmp_path)
    assert scripts.is_own(copied)
    path = copied.folder / "scripts/verify.py"
    path.write_text(path.read_text().replace("MARGIN = 0.02", "MARGIN = 0.03"))
    assert not scripts.is_own(read_skill(copied.folder))


def test_a_machine_without_walls_is_no_fault_of_the_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coevo.errors import WallsError
    from coevo.skills import running

    def no_walls(_config: SandboxConfig) -> None:
        raise WallsError("no walls stand here")

    monkeypatch.setattr(running, "open_sandbox", no_walls)
    skill = read_skill(skill_folder(tmp_path))
    with Scripts() as runner:
        said = runner.fires(skill, findings(dead_groups="critical"))
        assert not said.fires and said.failure is not None and said.failure.fault is Fault.INFRASTRUCTURE
        assert runner.verify(skill, findings(), findings()).word is Outcome.INCONCLUSIVE
        assert not runner.cases(skill).measured
        assert not runner.cases_hold(skill)


def test_one_call_brings_a_runner_of_its_own(tmp_path: Path) -> None:
    assert fires(read_skill(skill_folder(tmp_path)), findings(dead_groups="critical")).fires


def test_plain_data_has_no_number_that_json_lacks() -> None:
    import numpy as np

    assert plain({"a": (math.inf, np.float64(2), np.int64(3)), 1: {"x"}}) == {"a": [None, 2.0, 3], "1": ["x"]}
