"""An agent that is a command: any headless coding agent, in a worktree of its own, behind walls.

It gets a fresh folder and its path as last argument:

    brief.md, brief.json    all it is told
    harness/                the files that may change, and recipe.yaml
    proposal.json           what it leaves: a proposal, or a list (fields as in `coevo.lab.proposals.ProposalForm`)

It may say its change in proposal.json, or make it in `harness/` and leave `change` out: the difference is the change. For a new diagnostic it finds
`gap.md`, and leaves diagnostic.json, or nothing. The walls are bubblewrap's: it sees the system read-only, not the lab's run folder nor the tasks
(their hidden tests), writes nowhere but there, and keeps the network, which it needs to think. What it left is checked like any other proposal.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from coevo.config import leaves, plain_yaml
from coevo.errors import ConfigError, InfrastructureError, WallsError
from coevo.lab.briefs import brief_dict, brief_text
from coevo.lab.proposals import AgentReply, diagnostic_proposal_of, proposal_of
from coevo.lab.settings import AgentConfig
from coevo.lab.types import Brief, DiagnosticProposal, Proposal
from coevo.training.settings import WHOLE

MOST_BYTES = 1 << 20
"""Of a file that is read back."""
_KEPT = ("PATH", "HOME", "LANG", "TERM")
RECIPE = "recipe.yaml"


class CommandAgent:
    """One process a turn; nothing of it outlives the turn."""

    def __init__(self, config: AgentConfig, *, hidden: Sequence[Path] = ()) -> None:
        """`hidden`: folders it must not see. Raises `ConfigError`, or `WallsError` where the walls cannot be had."""
        self.name = f"command:{Path(config.command[0]).name}"
        self._config, self._hidden = config, tuple(path.resolve() for path in hidden)
        program = shutil.which(config.command[0])
        if program is None:
            raise ConfigError(f"agent.command: there is no program {config.command[0]!r}, here or on the PATH")
        self._command = (str(Path(program).absolute()), *map(_from_the_root, config.command[1:]))
        if config.walls == "bubblewrap" and shutil.which("bwrap") is None:
            raise WallsError(
                "agent.walls = bubblewrap needs the program bwrap: install the package bubblewrap; or set agent.walls=none, and the agent can "
                "read hidden tests and write anywhere"
            )

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        with self._workspace(brief) as folder:
            self._run(folder)
            left = _read(folder / "proposal.json")
            given = left if isinstance(left, list) else [left]
            made = _difference(folder / "harness", brief)
            found = []
            for i, one in enumerate(given[: brief.wanted]):
                if isinstance(one, dict) and not one.get("change"):
                    one = {**one, "change": made}
                found.append(proposal_of(one, where=f"proposal.json[{i}]"))
            return found

    def propose_diagnostic(self, brief: Brief, gap: str) -> DiagnosticProposal | None:
        with self._workspace(brief) as folder:
            (folder / "gap.md").write_text(gap, encoding="utf-8")
            self._run(folder)
            if not (folder / "diagnostic.json").exists():
                return None
            return diagnostic_proposal_of(_read(folder / "diagnostic.json"), where="diagnostic.json")

    def spent(self) -> Mapping[str, float]:
        """What a command spends on its own account is unknown to the lab."""
        return {}

    @contextlib.contextmanager
    def _workspace(self, brief: Brief) -> Any:
        with tempfile.TemporaryDirectory(prefix="coevo-agent-") as name:
            folder = Path(name)
            (folder / "brief.json").write_text(json.dumps(brief_dict(brief), indent=1), encoding="utf-8")
            (folder / "brief.md").write_text(brief_text(brief), encoding="utf-8", errors="backslashreplace")
            (folder / "harness").mkdir()
            (folder / "harness" / RECIPE).write_text(yaml.safe_dump(dict(brief.recipe)), encoding="utf-8")
            for path, text in brief.files.items():
                place = folder / "harness" / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            yield folder

    def _run(self, folder: Path) -> None:
        config = self._config
        command = [*self._command, str(folder)]
        if config.walls == "bubblewrap":
            command = [*self._walls(folder), "--", *command]
        environ = {name: os.environ[name] for name in (*_KEPT, *config.environment) if name in os.environ}
        with (folder / "agent.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                code = process.wait(config.timeout_s)
            except subprocess.TimeoutExpired:
                raise InfrastructureError(
                    f"agent {self.name} took longer than agent.timeout_s = {config.timeout_s:g} seconds and was ended"
                ) from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            tail = (folder / "agent.log").read_bytes()[-400:].decode("utf-8", "backslashreplace").strip()
            raise InfrastructureError(f"agent {self.name} ended with exit code {code}: {tail or 'it said nothing'}")

    def _walls(self, folder: Path) -> list[str]:
        walls = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev"]
        walls += ["--proc", "/proc", "--tmpfs", "/tmp"]
        for path in _own_files(self._command):
            if not any(_inside(hidden, path) or _inside(path, hidden) for hidden in self._hidden):
                walls += ["--ro-bind", str(path), str(path)]
        for path in self._hidden:
            if path.is_dir() and not _inside(path, Path("/tmp")):
                walls += ["--tmpfs", str(path)]
        for name in self._config.writable:
            path = Path(name).expanduser().resolve()
            if any(_inside(hidden, path) or _inside(path, hidden) for hidden in self._hidden):
                raise ConfigError(f"agent.writable: {name} holds, or is in, what the agent must not see")
            walls += ["--bind-try", str(path), str(path)]
        return [*walls, "--bind", str(folder), str(folder), "--chdir", str(folder)]


def _from_the_root(word: str) -> str:
    """A file's path, so that it means the same from the turn's folder; anything else as it is."""
    path = Path(word)
    return str(path.absolute()) if path.is_file() else word


def _own_files(command: Sequence[str]) -> list[Path]:
    """What the command itself needs of /tmp, which it otherwise sees empty: its files, and the virtual environment of its program."""
    found = [Path(word) for word in command if Path(word).is_absolute() and Path(word).is_file()]
    homes = [path.parents[1] for path in found[:1] if (path.parents[1] / "pyvenv.cfg").is_file()]
    files = [path for path in dict.fromkeys(found) if not any(_inside(path, home) for home in homes)]
    return [path for path in (*homes, *files) if _inside(path, Path("/tmp"))]


def _inside(path: Path, other: Path) -> bool:
    return path == other or other in path.parents


def _read(path: Path) -> Any:
    if path.is_symlink() or not path.is_file():
        raise AgentReply(f"{path.name} is missing: leave it in the folder that was given")
    if path.stat().st_size > MOST_BYTES:
        raise AgentReply(f"{path.name} has {path.stat().st_size:,} bytes; {MOST_BYTES:,} are the most")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as e:
        raise AgentReply(f"{path.name} is no JSON: {e}") from None


def _difference(harness: Path, brief: Brief) -> dict[str, Any]:
    """What the agent changed in `harness/`, as a change: recipe leaves, and files."""
    files: dict[str, str | None] = {}
    found = {str(p.relative_to(harness)): p for p in harness.rglob("*") if p.is_file() and not p.is_symlink()}
    sets = _sets(found.pop(RECIPE, None), brief.recipe)
    for path, place in found.items():
        if place.stat().st_size > MOST_BYTES:
            raise AgentReply(f"harness/{path} has over {MOST_BYTES:,} bytes")
        text = place.read_text(encoding="utf-8", errors="replace")
        if brief.files.get(path) != text:
            files[path] = text
    files |= {path: None for path in brief.files if path not in found}
    return {"sets": sets, "files": files}


def _sets(path: Path | None, recipe: Mapping[str, Any]) -> dict[str, Any]:
    if path is None:
        raise AgentReply(f"harness/{RECIPE} was removed; a branch cannot do without")
    try:
        new = plain_yaml(path.read_text(encoding="utf-8"), where=RECIPE)
    except (ConfigError, UnicodeDecodeError) as e:
        raise AgentReply(f"harness/{RECIPE}: {e}") from None
    if not isinstance(new, Mapping):
        raise AgentReply(f"harness/{RECIPE} must stay a mapping")
    known = yaml.safe_load(yaml.safe_dump(dict(recipe)))
    before, after = dict(leaves(known, whole=WHOLE)), dict(leaves(new, whole=WHOLE))
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}
