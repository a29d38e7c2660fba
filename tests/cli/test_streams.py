"""The command under the streams that services, old terminals and full disks give it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COEVO = [sys.executable, "-m", "coevo.cli.main"]


def shell(line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", line, "bash", *COEVO], capture_output=True, timeout=120, env={**os.environ, **env}, check=False
    )


def test_closed_streams_are_no_error(tmp_path: Path) -> None:
    ended = shell(f'"$@" evolve cap_set --set steps=0 --out {tmp_path}/run <&- >&- 2>&-; echo $?')
    assert ended.stdout == b"0\n" and (tmp_path / "run" / "artifacts" / "best.py").is_file()


def test_a_full_disk_under_the_output_is_a_message() -> None:
    told = shell('"$@" tasks list --json >/dev/full')
    assert told.returncode != 0 and b"No space left" in told.stderr and b"Traceback" not in told.stderr


@pytest.mark.parametrize("name", [rb"b\xff", rb"\xe6\xbc\xa2"])
def test_any_name_can_be_told_on_any_terminal(name: bytes) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = shell(f"\"$@\" status $'{name.decode()}'", **ascii_only)
    assert told.returncode == 1 and b"error: " in told.stderr and b"does not exist" in told.stderr
