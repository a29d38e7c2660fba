"""The harness: a git repository in the lab's run, so that every change to how training is done is a commit with a parent and a reason.

    harness/                  main: the harness that the next branch is made from
        recipe.yaml           the recipe, without seed, steps and tasks, which are the lab's
        rewards/*.py          reward functions, named in reward.parts as rewards/FILE.py:FUNCTION
        diagnostics/*.json    admitted diagnostics
        skills/NAME/          skills written here
    worktrees/b3/             the harness of branch b3, checked out

Commits are deterministic: author, dates and messages follow from what is committed, so a lab that was killed makes the same ones again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from coevo.config import plain_yaml
from coevo.errors import ConfigError, StoreError, UsageError

RECIPE = "recipe.yaml"
FOLDER, WORKTREES = "harness", "worktrees"
REWARDS = "rewards"
"""Folder of the harness with reward functions, which training and the judge load from a branch's worktree."""

README = """# A training harness

recipe.yaml      how a policy is trained; seed, steps and tasks are the lab's
rewards/         reward functions, named in reward.parts as rewards/FILE.py:FUNCTION
diagnostics/     diagnostics that were admitted by a replay on past branches, each with its table
skills/          skills written from interventions that were promoted

Every commit is one change. The judge, the gate, the splits and the budget are not here: they are sealed in the lab's run.
"""

LEAST_FREE = 1 << 16
"""Bytes on a disk under which a failure of git is put down to its being full."""

MAX_FILE = 200_000
"""Characters of one harness file."""

_DATE = "2000-01-01T00:00:00+00:00"
_ENV = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "coevo lab"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "lab@coevo.invalid"),
    **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), _DATE),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SETTINGS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "core.autocrlf=false"),
    *("-c", "gc.auto=0", "-c", "core.fsmonitor=false", "-c", "core.symlinks=false"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null"),
    *("-c", "safe.directory=*"),  # The user's own is not read, and a lab may lie on a mounted folder of another owner.
)


class Harness:
    """The repository of one lab. Every method raises `StoreError` when git cannot do its part."""

    def __init__(self, lab: Path) -> None:
        self.lab = lab
        self.path = lab / FOLDER
        self._recipes: dict[str, str] = {}
        self._files: dict[str, dict[str, str]] = {}
        """By commit, which never changes."""

    def begin(self, recipe: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str:
        """Make the repository with its first commit, or find it made; the commit's id."""
        require_git()
        if (self.path / ".git").exists() and (found := self._git("rev-parse", "--verify", "-q", "main", check=False)):
            return found
        shutil.rmtree(self.path, ignore_errors=True)  # Left half made by a kill.
        self.path.mkdir(parents=True)
        self._git("init", "-q", "-b", "main")
        _write_files(self.path, {"README.md": README, RECIPE: recipe_text(recipe), **(files or {})})
        return self._commit_all(self.path, "The first harness")

    def unlock(self) -> None:
        """Take away git's lock files that a kill of the whole process group, or of the machine, left. Only for the lab's one writer."""
        for path in (self.path / ".git").rglob("*.lock"):
            path.unlink(missing_ok=True)

    def commit(self, parent: str, files: Mapping[str, str | None], message: str) -> str:
        """A commit on top of `parent` with these files changed (None removes); `parent` itself where nothing changes."""
        scratch = self.lab / WORKTREES / ".commit"
        self._checkout(parent, scratch)
        try:
            _write_files(scratch, files)
            return self._commit_all(scratch, message)
        finally:
            self._drop(scratch)

    def checkout(self, commit: str, branch: str) -> Path:
        """The folder that holds the harness of a branch: a worktree at its commit. Made again where a kill left half of one, or somebody edited
        its reward functions."""
        folder = self.lab / WORKTREES / branch
        whole = (folder / RECIPE).is_file() and self._git("rev-parse", "HEAD", cwd=folder, check=False) == commit
        if not whole or self.edited(commit, branch):
            self._checkout(commit, folder)
        self._git("branch", "-f", branch, commit)
        return folder

    def restore(self, commit: str, branch: str) -> None:
        """Check a branch's worktree out again where it is gone altogether."""
        if not (self.lab / WORKTREES / branch).exists():
            self.checkout(commit, branch)

    def edited(self, commit: str, branch: str) -> list[str]:
        """Reward files of a branch's worktree that are not those of its commit: changed, deleted or added by hand."""
        folder = self.lab / WORKTREES / branch
        wanted = {name: digest for name, digest in self.files(commit).items() if name.startswith(f"{REWARDS}/")}
        paths = [folder / name for name in wanted] + sorted((folder / REWARDS).rglob("*.py"))
        there = {path.relative_to(folder).as_posix(): _sha_of(path) for path in paths}
        return sorted(name for name, digest in there.items() if digest != wanted.get(name))

    def advance(self, commit: str) -> None:
        """Make `commit` what `main` is, files included."""
        self._git("reset", "-q", "--hard", commit)

    def recipe(self, commit: str) -> dict[str, Any]:
        """The recipe at a commit, as plain data."""
        if commit not in self._recipes:
            self._recipes[commit] = self._read_recipe(commit)
        return json.loads(self._recipes[commit])

    def _read_recipe(self, commit: str) -> str:
        data = plain_yaml(self.read(commit, RECIPE), where=f"{RECIPE} of harness commit {commit[:12]}")
        if not isinstance(data, dict):
            raise ConfigError(f"{RECIPE} of harness commit {commit[:12]} must hold names and values")
        return json.dumps(data)

    def files(self, commit: str) -> dict[str, str]:
        """Path -> SHA-256 of the text of every file at a commit but the recipe."""
        if commit not in self._files:
            names = [name for name in self._git("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]
            self._files[commit] = {name: _sha(self.read(commit, name)) for name in names if name != RECIPE}
        return dict(self._files[commit])

    def texts(self, commit: str, folder: str) -> dict[str, str]:
        """Path -> text of the files of a folder at a commit."""
        names = self._git("ls-tree", "-r", "-z", "--name-only", commit, "--", f"{folder}/").split("\0")
        return {name: self.read(commit, name) for name in names if name}

    def read(self, commit: str, path: str) -> str:
        return self._git("show", f"{commit}:{path}", strip=False)

    def log(self) -> list[tuple[str, str]]:
        """(commit, subject) of main, newest first."""
        lines = self._git("log", "--format=%H %s", "main").splitlines()
        return [(line[:40], line[41:]) for line in lines]

    # Inside

    def _checkout(self, commit: str, folder: Path) -> None:
        self._drop(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        twice = ("--force", "--force")  # The second one overrides the lock of a checkout that was killed.
        self._git("worktree", "add", "-q", "--detach", *twice, str(folder.resolve()), commit)

    def _drop(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._git("worktree", "prune")

    def _commit_all(self, folder: Path, message: str) -> str:
        self._git("add", "-A", "--force", cwd=folder)
        if self._git("rev-parse", "-q", "--verify", "HEAD", cwd=folder, check=False) and not self._git(
            "status", "--porcelain", cwd=folder
        ):
            return self._git("rev-parse", "HEAD", cwd=folder)
        self._git("commit", "-q", "--no-verify", "-F", "-", cwd=folder, stdin=message)
        return self._git("rev-parse", "HEAD", cwd=folder)

    def _git(
        self, *words: str, cwd: Path | None = None, check: bool = True, stdin: str = "", strip: bool = True
    ) -> str:
        keep = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        ceiling = {
            "GIT_CEILING_DIRECTORIES": str(self.lab.resolve())
        }  # A lab inside somebody's repository never touches that one.
        folder = cwd or self.path
        if not folder.is_dir():
            raise StoreError(f"{folder} is gone{_advice(self.path, '')}")
        try:
            done = subprocess.run(
                ["git", *_SETTINGS, *words],
                cwd=folder,
                env={**keep, **_ENV, **ceiling},
                input=stdin.encode(),
                capture_output=True,
                timeout=120,
                check=False,
            )
        except FileNotFoundError:
            raise _missing() from None
        except (OSError, subprocess.TimeoutExpired) as e:
            raise StoreError(f"git {words[0]} in {folder} failed: {e}{_advice(self.path, str(e))}") from e
        if done.returncode and check:
            said = done.stderr.decode("utf-8", "replace").strip()
            what = said or f"it ended with {done.returncode}"
            raise StoreError(f"git {words[0]} in {folder} failed: {what}{_advice(self.path, said)}")
        text = "" if done.returncode else done.stdout.decode("utf-8", "surrogateescape")
        return text.strip() if strip else text


def require_git() -> None:
    """Raise a `UsageError` where there is no git."""
    if shutil.which("git") is None:
        raise _missing()


def _missing() -> UsageError:
    return UsageError(
        "a lab keeps its harness in a git repository, and there is no `git` on PATH; install it (apt-get install git) and go on"
    )


def _advice(harness: Path, said: str) -> str:
    """What to do where git could not do its part."""
    low = said.lower()
    refused = any(word in low for word in ("no space", "disk quota", "read-only", "permission denied", "timed out"))
    if refused or _full(harness):  # Git does not always say why it could not write.
        return ". What the lab stored before is kept; see that its folder can be written and has space, then resume it"
    return (
        f". The lab's events and branches are kept; `git -C {harness} fsck` names what is damaged. Put {harness} back from a copy of the lab, "
        "then resume it"
    )


def _full(folder: Path) -> bool:
    """Whether the disk that holds it has hardly a block or an inode left."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < LEAST_FREE or (found.f_files > 0 and found.f_favail == 0)


def recipe_text(recipe: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=False, width=120)


def safe_path(name: str) -> PurePosixPath:
    """A path inside the harness. Raises `UsageError` for one that leads out of it or into git's own."""
    path = PurePosixPath(name)
    parts = path.parts
    odd = not parts or path.is_absolute() or "\\" in name or "\0" in name or str(path) != name
    if odd or any(part == ".." or part.lower().startswith(".git") for part in parts):
        raise UsageError(f"{name!r} is no path inside the harness; name a file as rewards/short.py")
    return path


def _write_files(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / safe_path(name)
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{name!r} leads out of the harness through a link; name a plain file")
        if text is None:
            path.unlink(missing_ok=True)
            continue
        if len(text) > MAX_FILE:
            raise UsageError(f"harness file {name!r} has {len(text):,} characters; {MAX_FILE:,} are the limit")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _sha_of(path: Path) -> str:
    """Of a file as it is now; "" where there is none to read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
