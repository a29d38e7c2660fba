"""Branches: training runs that go on from where their parents ended, under the recipe of their harness commit.

Every branch is an ordinary training run at `branches/NAME`: `coevo status`, `diagnose` and `resume` open it. All branches of a round train
under one seed, so that what differs between them is the change; the next round has another. A branch is trained up to a step and left there
(a rung of pruning), and goes on exactly where it was, whether the lab was killed in between or not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coevo.errors import BudgetSpent, GateBlocked, InfrastructureError, ModelError, StoreError, UsageError
from coevo.evolution.interrupts import FILE as STOP
from coevo.lab.digests import array_digest, digest_of, folder_digest, manner_digest, weights_folder
from coevo.lab.harness import Harness
from coevo.lab.interventions import BASE, resolved
from coevo.lab.ledger import START, Ledger
from coevo.lab.settings import LabConfig
from coevo.lab.types import Branch
from coevo.runs import Budget, Run
from coevo.runs.jsontext import dumps
from coevo.runs.types import State
from coevo.streams import stream_seed
from coevo.training.history import past_of
from coevo.training.opening import ENGINE_TRAINERS, KIND, Setup
from coevo.training.result import StoppedBy, TrainProgress, TrainResult
from coevo.training.session import absolute, begin, branch, go_on, resume, with_absolute_paths
from coevo.training.settings import Recipe

FOLDER = "branches"
WEIGHTS = "artifacts/start.json"
"""Of a toy branch: what it begins with."""

PAID = ("evaluations", "tokens", "usd")
"""Dimensions of a branch's cost; time is kept apart, since it is measured."""


class Trained(NamedTuple):
    """How far a branch came."""

    step: int
    """Counted from its launch."""
    ended: bool
    """Nothing is left to train: its steps, or an end that the recipe asks for."""
    cost: Mapping[str, float]
    """Of the run so far, by dimension."""
    minutes: float
    interrupted: bool = False
    failed: str = ""
    """Why its training cannot go on."""
    spent: str = ""
    """Which budget ended it."""


@dataclass(frozen=True)
class Branches:
    """The branches of one lab."""

    lab: Path
    config: LabConfig
    harness: Harness
    notify: Callable[[str], None] = lambda line: None
    _records: dict[str, tuple[Any, str]] = field(default_factory=dict, compare=False, repr=False)
    """Branch -> what its run's files looked like when its digest was taken, and the digest."""

    def path(self, name: str) -> Path:
        return self.lab / FOLDER / name

    def recipe(self, made: Branch, wanted: int) -> Recipe:
        """What a branch trains by: its commit's recipe, with the lab's steps, tasks and seed, and reward files where they are checked out."""
        data = self.harness.recipe(made.commit)
        folder = self.harness.checkout(made.commit, made.name)
        reward = dict(data.get("reward") or {})
        if parts := reward.get("parts"):
            reward["parts"] = {_in_folder(name, folder): weight for name, weight in parts.items()}
            data["reward"] = reward
        whole = resolved(data, self.config).model_copy(update={"seed": self.seed(made), "steps": wanted})
        return with_absolute_paths(whole)

    def seed(self, made: Branch) -> int:
        """What a branch trains under: all of a round share it."""
        return stream_seed(self.config.seed, "train", made.round) % (1 << 62)

    def train(
        self, ledger: Ledger, names: Sequence[str], step: int, budget: Mapping[str, float | None]
    ) -> list[Trained]:
        """Bring branches to `step`; in this process one after the other, or `parallel` at a time in processes of their own."""
        todo = [ledger.branches[name] for name in names]
        if self.config.parallel == 1 or len(todo) == 1:
            return [self.train_one(ledger, made, step, budget) for made in todo]
        with ThreadPoolExecutor(self.config.parallel) as threads:
            return list(threads.map(lambda made: self._apart(made.name, step, budget), todo))

    def train_one(self, ledger: Ledger, made: Branch, step: int, budget: Mapping[str, float | None]) -> Trained:
        """Bring a branch to `step`, from wherever it is. What the training itself does wrong comes back as `failed`."""
        path = self.path(made.name)
        (path / STOP).unlink(missing_ok=True)  # Of a rung that a kill cut short.
        target = min(step, ledger.wanted[made.name])
        try:
            result = self._go(ledger, made, path, target, budget)
        except BudgetSpent as e:
            return self._found(path, spent=str(e))
        except ModelError:
            raise  # A server that is away says nothing of the branch: the lab stops, and goes on from here.
        except StoreError as e:  # By itself the branch would train past its rung.
            raise type(e)(str(e).replace(f"coevo resume {path}", f"coevo lab resume {self.lab}")) from e
        except (UsageError, GateBlocked, InfrastructureError) as e:
            return self._found(path, failed=f"{type(e).__name__}: {e}")
        if result is not None and result.stopped_by is StoppedBy.FAILED:
            return self._found(path, failed=result.message)
        if result is not None and result.stopped_by is StoppedBy.BUDGET:
            return self._found(path, spent=result.message)
        found = self._found(path)
        return found._replace(interrupted=not found.ended and found.step < target)

    def _go(
        self, ledger: Ledger, made: Branch, path: Path, target: int, budget: Mapping[str, float | None]
    ) -> TrainResult | None:
        bounds = _bounds(path, budget)
        if not (path / "run.db").exists():
            return self._begin(ledger, made, path, target, bounds)
        with Run.open(path, write=False) as run:
            setup, past, state = Setup.read(run), past_of(run), run.state()
        if state is State.FINISHED or past.made - past.begin >= target:
            return None
        stop = _Stop(path, past.begin + target, setup.recipe.steps)
        if setup.recipe.trainer in ENGINE_TRAINERS:
            with resume(path, budget=bounds, notify=self.notify) as session:
                return session.go(stop)
        return go_on(path, budget=bounds, observer=stop, notify=self.notify)

    def _begin(self, ledger: Ledger, made: Branch, path: Path, target: int, bounds: Budget) -> TrainResult:
        recipe = self.recipe(made, ledger.wanted[made.name])
        source = self.source(ledger, made)
        if recipe.trainer not in ENGINE_TRAINERS:
            return self._begin_own(recipe, source, path, target, bounds)
        if source is None or source.other is not None or not (source.run / "checkpoints").is_dir():
            weights = self._base(recipe) if source is None else weights_folder(source.run)
            if source is not None and source.other is not None:
                weights = averaged(
                    weights, weights_folder(source.other), source.share, self.path(f".{made.name}-start")
                )
            stop = _Stop(path, target, recipe.steps)
            with begin(recipe, path, weights=weights, budget=bounds, notify=self.notify) as session:
                return session.go(stop)
        from coevo.training import checkpoints

        found = checkpoints.pick(source.run, str(source.step) if source.step is not None else "")
        recipe = recipe.model_copy(update={"steps": found.step + ledger.wanted[made.name]})
        stop = _Stop(path, found.step + target, recipe.steps)
        with branch(
            source.run, path, checkpoint=str(found.step), recipe=recipe, budget=bounds, notify=self.notify
        ) as session:
            return session.go(stop)

    def _begin_own(self, recipe: Recipe, source: Source | None, path: Path, target: int, bounds: Budget) -> TrainResult:
        """Trainers that bring their own loop. A toy begins with weights in a file, a command with a folder."""
        weights = ""
        if recipe.trainer == "toy":
            if source is not None:
                from coevo.training.toy import write_weights

                (path / "artifacts").mkdir(parents=True, exist_ok=True)
                write_weights(path / WEIGHTS, source.toy_weights())
                weights = WEIGHTS
        elif source is None:
            base = self._base(recipe)
            weights = absolute(str(base)) if base is not None else absolute(recipe.base)
        else:
            weights = str(weights_folder(source.run, source.step))
        setup = Setup(recipe=recipe, weights=weights)
        path.parent.mkdir(parents=True, exist_ok=True)
        Run.create(path, kind=KIND, config=setup.model_dump(mode="json"), budget=bounds).close()
        return go_on(path, observer=_Stop(path, target, recipe.steps), notify=self.notify)

    def _base(self, recipe: Recipe) -> Path | None:
        from coevo.mini.base import base_folder

        return base_folder(recipe.base, notify=self.notify)

    # Where a branch begins

    def source(self, ledger: Ledger, made: Branch) -> Source | None:
        """The weights a branch begins with; None: the base's."""
        weights = made.proposal.change.weights if made.proposal else {}
        if "a" in weights:
            a, b = (self._known(ledger, weights[name]) for name in ("a", "b"))
            return Source(self.path(a.name), None, self.path(b.name), float(weights.get("share", "0.5")))
        if weights.get("from") == BASE:
            return None
        if "from" in weights:
            name, _, step = weights["from"].rpartition("@")
            run = self.path(self._known(ledger, name).name)
            if not step.isdecimal():
                raise UsageError(
                    f"change.weights.from = {weights['from']!r}: give BRANCH@STEP, as in b1@20, or {BASE!r} for the weights the lab began with"
                )
            return Source(run, int(step))
        if made.name == START or self.config.fresh:
            return None
        assert made.parent is not None
        return Source(self.path(made.parent), None)

    def _known(self, ledger: Ledger, name: str) -> Branch:
        if name not in ledger.branches:
            raise UsageError(f"change.weights names branch {name!r}; there are {', '.join(ledger.branches)}")
        return ledger.branches[name]

    # What a branch ended and began with

    def ended_with(self, name: str) -> str:
        """Digest of a branch's newest weights."""
        return digest_of(self.path(name), None)

    def saved(self, name: str, known: Mapping[str, str]) -> dict[str, str]:
        """Step -> digest of a branch's checkpoints that are not `known` yet. A toy's weights are in its run, which has its own digest."""
        from coevo.training import checkpoints

        found = checkpoints.found(self.path(name))
        return {str(c.step): folder_digest(Path(c.state)) for c in found if str(c.step) not in known}

    def asked_with(self, name: str) -> str:
        """Digest of what the folder that a branch's policy is opened from holds beside weights: tokenizer, templates, settings of generation. They
        decide how a policy is asked. Empty where there is no such folder."""
        with Run.open(self.path(name), write=False) as run:
            weights = Setup.read(run).weights
        return manner_digest(Path(weights)) if weights and Path(weights).is_dir() else ""

    def record(self, name: str) -> str:
        """Digest of a branch's training run, settings and rollouts, but for measured times. Read again only when the run's files have changed."""
        path = self.path(name)
        state = tuple(_state_of(path / file) for file in ("run.db", "run.db-wal", "run.yaml"))
        if self._records.get(name, ("", ""))[0] != state:
            with Run.open(path, write=False) as run:
                settings = dumps(run.config, canonical=True)
                found = hashlib.sha256(f"{run.digest()}\n{settings}".encode()).hexdigest()
            self._records[name] = state, found
        return self._records[name][1]

    def began_with(self, name: str) -> str:
        """Digest of the weights its training started from, as they are now."""
        path = self.path(name)
        with Run.open(path, write=False) as run:
            setup = Setup.read(run)
            if setup.recipe.trainer == "toy":
                from coevo.training.toy import start_of

                return array_digest(start_of(run))
        return folder_digest(Path(setup.parent.state if setup.parent else setup.weights))

    def origins(self, ledger: Ledger, made: Branch) -> tuple[str, ...]:
        """Digests of the weights it may start from: its parent's as recorded, or those that its change names."""
        source = self.source(ledger, made)
        if source is None:
            return (self.began_with(START),)
        recorded = ledger.weights.get(source.run.name, "")
        if source.other is None and source.step is None and recorded:
            return (recorded,)
        if source.other is None:
            then = ledger.checkpoints.get(source.run.name, {}).get(str(source.step))
            return (then or digest_of(source.run, source.step),)
        with Run.open(self.path(made.name), write=False) as run:
            setup = Setup.read(run)
        if setup.recipe.trainer == "toy":
            return (array_digest(source.toy_weights()),)
        return (folder_digest(Path(setup.weights)),)

    # Inside

    def _found(self, path: Path, **more: Any) -> Trained:
        """What the run itself says."""
        if not (path / "run.db").exists():
            return Trained(0, False, dict.fromkeys(PAID, 0.0), 0.0, **more)
        with Run.open(path, write=False) as run:
            past, spent, state = past_of(run), run.ledger.spent(), run.state()
        cost = {name: spent[name] for name in PAID}
        return Trained(past.made - past.begin, state is State.FINISHED, cost, spent["minutes"], **more)

    def _apart(self, name: str, step: int, budget: Mapping[str, float | None]) -> Trained:
        order = json.dumps({"branch": name, "step": step, "budget": dict(budget), "parent": os.getpid()})
        done = subprocess.run(
            [sys.executable, "-m", "coevo.lab.worker", str(self.lab)],
            input=order.encode(),
            capture_output=True,
            check=False,
        )
        try:
            data = json.loads(done.stdout.decode().splitlines()[-1])
            if "error" in data:
                raise StoreError(data["error"]) if data["stored"] else InfrastructureError(data["error"])
            return Trained(**data)
        except (ValueError, TypeError, IndexError):
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
            raise InfrastructureError(
                f"the process that trained branch {name} ended with {done.returncode}: {' / '.join(said) or 'it said nothing'}"
            ) from None


def _state_of(file: Path) -> tuple[int, int, int] | None:
    """Size, time of change and inode: what no write leaves as it was."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


class Source(NamedTuple):
    """A run whose weights a branch begins with; two, to be averaged."""

    run: Path
    step: int | None
    """None: the newest."""
    other: Path | None = None
    share: float = 0.5
    """Of `other`."""

    def toy_weights(self) -> np.ndarray:
        """Of a toy run, (features, actions)."""
        from coevo.training.toy import weights_of

        with Run.open(self.run, write=False) as run:
            found = weights_of(run, self.step)
        if self.other is None:
            return found
        with Run.open(self.other, write=False) as run:
            return (1 - self.share) * found + self.share * weights_of(run)


class _Stop:
    """Asks a training run to stop once it has made a step. Only short of the recipe's last one, where it ends by itself."""

    def __init__(self, path: Path, step: int, steps: int) -> None:
        self._file = path / STOP
        self._step = step if step < steps else None

    def __call__(self, progress: TrainProgress) -> None:
        if self._step is not None and progress.step >= self._step:
            self._file.touch()


def averaged(a: Path | None, b: Path, share: float, out: Path) -> Path:
    """A Hugging Face folder whose tensors are (1 - share) of `a`'s plus share of `b`'s; everything else is `a`'s. Made again if a kill left half.

    Raises `UsageError` where the two hold different tensors.
    """
    assert a is not None
    from safetensors.numpy import load_file, save_file

    files = sorted(path.name for path in a.glob("*.safetensors") if "optim" not in path.name)
    if not files or any(not (b / name).is_file() for name in files):
        raise UsageError(f"cannot average {a} and {b}: they do not hold the same weight files")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for path in a.iterdir():
        if (
            path.is_file()
            and path.suffix in (".json", ".txt", ".model", ".jinja")
            and path.name not in ("coevo.json", "engine.json")
        ):
            shutil.copy2(path, out / path.name)
    for name in files:
        one, other = load_file(a / name), load_file(b / name)
        if {k: v.shape for k, v in one.items()} != {k: v.shape for k, v in other.items()}:
            raise UsageError(f"cannot average {a} and {b}: {name} holds different tensors")
        mixed = {k: ((1 - share) * v + share * other[k]).astype(v.dtype) for k, v in one.items()}
        save_file(mixed, out / name, metadata={"format": "pt"})
    return out


def _bounds(path: Path, budget: Mapping[str, float | None]) -> Budget:
    """Bounds of a branch's run: what the lab has left, on top of what the run has spent itself."""
    spent: Mapping[str, float] = {}
    if (path / "run.db").exists():
        with Run.open(path, write=False) as run:
            spent = run.ledger.spent()
    limits: dict[str, Any] = {}
    for name, left in budget.items():
        if left is not None:
            limits[name] = max(left + spent.get(name, 0.0), 1 if name == "tokens" else 1e-6)
    return Budget(**limits)


def _in_folder(name: str, folder: Path) -> str:
    """rewards/x.py:f as a path that means the same from anywhere; a shipped part as it is."""
    path, _, function = name.rpartition(":")
    if not path.startswith("rewards/"):
        return name
    return f"{(folder / path).resolve()}:{function}"
