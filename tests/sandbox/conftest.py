"""A sandbox per rung, kept for the whole session; what there is to attack; and a look at what is left behind."""

from __future__ import annotations

import os
import shutil
import socket
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coevo.errors import WallsError
from coevo.sandbox import Call, Job, Level, Limits, Preload, SandboxConfig, open_sandbox
from coevo.sandbox.pool import LocalSandbox

ANSWER = "-".join(("the", "hidden", "answer"))
"""In the memory of the judge; no candidate may ever see it."""


def job(
    source: str, *args: object, entry: str | None = "f", limits: Limits | None = None, preload: Preload = Preload.STDLIB
) -> Job:
    """One source, one call."""
    calls = (Call(args),) if entry else ()
    return Job(
        (("program.py", source),),
        "program.py",
        entry,
        calls,
        preload=preload,
        limits=limits or Limits(cpu_s=5, wall_s=20),
    )


@pytest.fixture(scope="session")
def sandboxes() -> Iterator[Callable[[Level], LocalSandbox]]:
    """Opens each rung once. Skips where a rung does not stand, saying which wall is missing."""
    opened: dict[Level, LocalSandbox] = {}

    def get(level: Level) -> LocalSandbox:
        if level not in opened:
            try:
                opened[level] = open_sandbox(SandboxConfig(level=level))
            except WallsError as e:
                pytest.skip(f"this machine has no {level}: {e}")
        return opened[level]

    yield get
    for sandbox in opened.values():
        sandbox.close()


@pytest.fixture
def best(sandboxes: Callable[[Level], LocalSandbox]) -> LocalSandbox:
    """The namespaces rung."""
    return sandboxes(Level.NAMESPACES)


@pytest.fixture(scope="session")
def where() -> Iterator[dict[str, object]]:
    """A secret that everybody on the host may read, a folder everybody may write, sockets that listen."""
    folder = Path(tempfile.mkdtemp(prefix="coevo-judge-"))
    folder.chmod(0o777)
    secret = folder / "hidden_tests.jsonl"
    secret.write_text(ANSWER)
    secret.chmod(0o666)
    os.environ["SECRET_API_KEY"] = ANSWER
    post = Path(tempfile.mkdtemp(prefix="coevo-post-"))
    post.chmod(0o777)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.bind(str(post / "socket"))
        (post / "socket").chmod(0o777)
        datagrams.setblocking(False)
        name = f"coevo-test-{os.getpid()}"
        unix.bind("\0" + name)
        unix.listen()
        yield {
            "secret": str(secret),
            "folder": str(folder),
            "port": tcp.getsockname()[1],
            "abstract": name,
            "datagrams": str(post / "socket"),
            "pid": os.getpid(),
            "source": str(Path(__file__).resolve()),
            "packages": [sysconfig.get_paths()["purelib"], str(Path(__file__).resolve().parents[2] / "src")],
        }
        with pytest.raises(BlockingIOError):  # nothing came
            datagrams.recv(100)
    del os.environ["SECRET_API_KEY"]
    shutil.rmtree(post)
    assert secret.read_text() == ANSWER
    assert os.listdir(folder) == ["hidden_tests.jsonl"]
    shutil.rmtree(folder)
