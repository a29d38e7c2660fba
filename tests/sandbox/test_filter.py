"""The system call filter, interpreted: every number of both processors gets the verdict its table says."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import pytest

from coevo.sandbox.spawn import INSIDE

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
OWN = 77

# The files behind the walls know only each other, so they are read by a process of their own.
MAKE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import syscalls
syscalls.COLUMN = int(sys.argv[2])
import seccomp
made = seccomp.Filter(processes=bool(int(sys.argv[3])), signals=bool(int(sys.argv[4])), metadata=bool(int(sys.argv[5])))
for line in made._id_at:
    made._code[8 * line + 4] = bytes([77])
tables = {name: getattr(seccomp, name) for name in ("ALWAYS", "METADATA", "OWN", "SIGNALS", "PROCESSES", "CHECKED")}
print(json.dumps({"code": made._code.raw[:-1].hex(), "tables": tables, "last": seccomp.LAST_KNOWN}))
"""


def _interpret(
    code: list[tuple[int, int, int, int]], arch: int, number: int, first: int = 0, second: int = 0, third: int = 0
) -> int:
    """Classic BPF, as far as the filter uses it. Raises if it leaves the program."""
    data = struct.pack("<IIQQQQ", number, arch, 0, first, second, third)
    at, value = 0, 0
    while True:
        op, yes, no, k = code[at]
        at += 1
        if op == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        elif op == 0x05:
            at += k
        elif op == 0x06:
            return k
        else:
            met = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[op]
            at += yes if met else no


@pytest.mark.parametrize("column", [0, 1], ids=["x86_64", "aarch64"])
@pytest.mark.parametrize(("processes", "signals", "metadata"), [(0, 1, 1), (1, 1, 1), (0, 0, 0), (1, 0, 1)])
def test_every_call_gets_its_verdict(column: int, processes: int, signals: int, metadata: int) -> None:
    options = [str(INSIDE), str(column), str(processes), str(signals), str(metadata)]
    made = json.loads(subprocess.run([sys.executable, "-c", MAKE, *options], capture_output=True, check=True).stdout)
    raw = bytes.fromhex(made["code"])
    code = [struct.unpack_from("<HBBI", raw, at) for at in range(0, len(raw), 8)]
    tables: dict[str, dict[str, int]] = made["tables"]
    arch = (0xC000003E, 0xC00000B7)[column]

    def verdict(number: int, first: int = 0, second: int = 0, third: int = 0) -> int:
        return _interpret(code, arch, number, first, second, third)

    allowed = {*tables["ALWAYS"].values()}
    allowed |= {*tables["METADATA"].values()} if metadata else set()
    allowed |= {*tables["PROCESSES"].values()} if processes else set()
    allowed |= {*tables["SIGNALS"].values()} if signals else set()
    special = {*tables["OWN"].values(), *tables["CHECKED"].values()} | (
        set() if signals else {*tables["SIGNALS"].values()}
    )
    for number in range(made["last"] + 1):
        if number not in special:
            assert verdict(number) == (ALLOW if number in allowed else EPERM), number
    for number in (made["last"] + 1, 1000, 0x40000000, 0xFFFFFFFF):
        assert verdict(number) == ENOSYS
    assert _interpret(code, arch ^ 1, 0) == KILL
    for number in tables["OWN"].values():
        assert [verdict(number, pid) for pid in (0, OWN, 1)] == [ALLOW, ALLOW, EPERM]
    if not signals:
        for number in tables["SIGNALS"].values():
            assert [verdict(number, pid) for pid in (OWN, 0, 1, 0xFFFFFFFF)] == [ALLOW, EPERM, EPERM, EPERM]
    checked = tables["CHECKED"]
    thread, fork, namespace = 0x3D0F00, 17, 0x10000011
    assert verdict(checked["clone"], thread) == ALLOW
    assert verdict(checked["clone"], fork) == (ALLOW if processes else EPERM)
    assert verdict(checked["clone"], namespace) == EPERM
    assert verdict(checked["clone3"]) == ENOSYS
    assert [verdict(checked["socketpair"], family, 1) for family in (1, 2, 10, 16)] == [ALLOW, EPERM, EPERM, EPERM]
    kinds = (1, 5, 0x80801, 2, 3, 0x80802)
    assert [verdict(checked["socketpair"], 1, kind) for kind in kinds] == [ALLOW, ALLOW, ALLOW, EPERM, EPERM, EPERM]
    assert [verdict(checked["setrlimit"], kind) for kind in (0, 1, 9)] == [EPERM, ALLOW, ALLOW]
    for pid, kind, new, right in (
        (0, 0, 0, ALLOW),
        (OWN, 0, 0, ALLOW),
        (OWN, 3, 1, ALLOW),
        (0, 0, 1, EPERM),
        (OWN, 0, 1 << 32, EPERM),
        (1, 3, 0, EPERM),
    ):
        assert verdict(checked["prlimit64"], pid, kind, new) == right, (pid, kind, new)
    assert [verdict(checked["prctl"], option) for option in (15, 16, 1, 4, 38)] == [ALLOW, ALLOW, EPERM, EPERM, EPERM]
    assert [verdict(checked["fcntl"], 3, command) for command in (1, 3, 8, 10, 15)] == [
        ALLOW,
        ALLOW,
        EPERM,
        EPERM,
        EPERM,
    ]
    assert [verdict(checked["ioctl"], 3, request) for request in (0x5401, 0x5412, 0x8901)] == [ALLOW, EPERM, EPERM]
