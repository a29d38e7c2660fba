"""The ladder: rungs are believed only when they have been tried, and never taken silently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coevo.errors import WallsError
from coevo.sandbox import Level, Preload, SandboxConfig, Wall, open_sandbox, probe
from coevo.sandbox.doctor import examine
from coevo.sandbox.ladder import LADDER, NEEDS, missing, reachable
from coevo.sandbox.spawn import interpreter

ROOT = Path(__file__).resolve().parents[2]

# A machine whose user namespaces are switched off, made on this one: inside a user namespace, their number can be set to 0.
WITHOUT_NAMESPACES = """
import ctypes, os, sys
told, tell = os.pipe()
wait, go = os.pipe()
pid = os.fork()
if pid == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(tell, b"x")
    os.read(wait, 1)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
    os.setgroups([])
    os.setresgid(12345, 12345, 12345)
    os.setresuid(12345, 12345, 12345)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
os.read(told, 1)
for name in ("uid_map", "gid_map"):
    open(f"/proc/{pid}/{name}", "w").write("0 0 70000")
os.write(go, b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def _elsewhere(code: str) -> str:
    """Run code where there are no user namespaces; what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": "/tmp"}
    command = [
        sys.executable,
        "-B",
        "-c",
        WITHOUT_NAMESPACES,
        "from coevo.errors import *\nfrom coevo.sandbox import *\n" + code,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


_INTERPRETER = reachable(Path(interpreter()))
others_may = pytest.mark.skipif(not _INTERPRETER.stands, reason=_INTERPRETER.detail)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a machine without user namespaces")


def test_every_wall_has_been_tried() -> None:
    walls = probe()
    names = {wall.name for wall in walls}
    assert {name for level in Level for name in NEEDS[level]} <= names
    for level in LADDER:
        if not missing(level, walls):
            with open_sandbox(SandboxConfig(level=level)) as sandbox:
                assert sandbox.level is level


def test_missing_walls_are_named() -> None:
    walls = [Wall(name, name != "seccomp", "because") for name in NEEDS[Level.NAMESPACES]]
    assert [wall.name for wall in missing(Level.NAMESPACES, walls)] == ["seccomp"]
    assert [wall.name for wall in missing(Level.BUBBLEWRAP, walls)] == ["bubblewrap", "seccomp"]


@needs_root
@others_may
def test_without_namespaces_landlock_is_taken_and_said() -> None:
    answer = _elsewhere(
        "with open_sandbox() as s:\n"
        "    job = Job((('program.py', 'import os\\ndef f(x): return os.listdir(x)'),), 'program.py', 'f', (Call(('.',)), Call(('/',))))\n"
        "    print(s.level, *[c.status for c in s.run(job).calls])"
    )
    assert answer == "landlock ok error\n"


@needs_root
@others_may
def test_without_namespaces_a_run_that_demands_them_is_refused() -> None:
    for config in ("minimum='namespaces'", "level='namespaces'"):
        answer = _elsewhere(f"try: open_sandbox(SandboxConfig({config}))\nexcept WallsError as e: print(e)")
        assert "namespaces: no user namespace (clone: No space left on device)" in answer
        assert "kernel.apparmor_restrict_unprivileged_userns" in answer and "coevo doctor" in answer


@needs_root
@others_may
def test_the_doctor_says_what_is_missing() -> None:
    code = "from coevo.sandbox.doctor import examine\nimport json\nprint(json.dumps(examine(seconds=0.1).to_dict()))"
    report = json.loads(_elsewhere(code))
    assert report["level"] == "landlock" and report["healthy"]
    assert "user namespace" in report["rungs"]["namespaces"] and report["rungs"]["landlock"] == []


def test_rlimits_are_never_taken_on_their_own() -> None:
    with pytest.raises(WallsError, match="below the minimum"):
        open_sandbox(SandboxConfig(level=Level.LANDLOCK, minimum=Level.NAMESPACES))
    with open_sandbox(SandboxConfig(level=Level.RLIMITS)) as sandbox:  # asked for by name
        assert sandbox.level is Level.RLIMITS
    with open_sandbox(SandboxConfig(minimum=Level.RLIMITS)) as sandbox:  # not asked for by name
        assert sandbox.level is not Level.RLIMITS


def test_the_doctor_on_this_machine() -> None:
    report = examine(seconds=0.3)
    assert report.healthy, report
    assert [warmth.preload for warmth in report.warmth] == list(Preload)
    assert all(warmth.per_s > 0 and warmth.level is report.level for warmth in report.warmth)
    assert len(report.canaries) == 10 and all(canary.ok for canary in report.canaries)
    assert json.loads(json.dumps(report.to_dict()))["healthy"] is True


@needs_root
def test_an_interpreter_that_no_other_user_can_come_to_is_a_missing_wall(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").touch()
    home.chmod(0o700)
    wall = reachable(home / "bin" / "python")
    assert not wall.stands and "lets no other user in" in wall.detail
    stands = [Wall(name, True, "") for name in NEEDS[Level.LANDLOCK] if name != "interpreter"]
    assert missing(Level.LANDLOCK, [*stands, wall]) == [wall]
