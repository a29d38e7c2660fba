"""Checkpoints of a run: which there are, the newest that can be read, which are kept.

    checkpoints/step-000020/    what the engine saved: a Hugging Face folder and the optimizer's tensors
        coevo.json              the step, where the state lies if not here (a server's path), and SHA-256 of `engine.json` and of itself
        README.md               the model card; for people, who may edit it

The folders themselves are the record: one counts from the moment `coevo.json` is in it, which is written last. `coevo.json` vouches for
`engine.json`, which vouches for everything else that is loaded. A run can be resumed without any, by repeating its updates from the first.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.engines.state import RECORD
from coevo.engines.types import Engine
from coevo.errors import StoreError, UsageError
from coevo.training import sealed

FOLDER = "checkpoints"
MARK = "coevo.json"
CARD = "README.md"
_NAME = re.compile(r"step-(\d{6,})")


def name_of(step: int) -> str:
    return f"step-{step:06d}"


@dataclass(frozen=True)
class Checkpoint:
    """A state of the policy after `step`."""

    step: int
    path: Path
    state: str
    """What `Engine.load` takes."""


def found(run: Path) -> list[Checkpoint]:
    """Of a run's folder, oldest first, damaged ones among them (`require_whole`)."""
    folder = run / FOLDER
    kept = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and (path / MARK).is_file():
            kept.append(Checkpoint(int(match[1]), path, _state(path)))
    return sorted(kept, key=lambda one: one.step)


def _state(path: Path) -> str:
    try:
        elsewhere = sealed.read(path / MARK).get("state")
    except StoreError:
        elsewhere = None  # Told by `require_whole`, where the checkpoint is to be used.
    return elsewhere or str(path)


def require_whole(one: Checkpoint) -> None:
    """Raise a `StoreError` that names what of a checkpoint is missing or was changed. What the engine saved, the engine checks itself."""
    sealed.require_files(one.path, sealed.read(one.path / MARK))


def pick(run: Path, which: str = "") -> Checkpoint:
    """The checkpoint that `RUN@WHICH` names: a step (`20`, `step-000020`), `best`, or nothing for the newest.

    Raises `UsageError` where there is no such one, `StoreError` where it is damaged.
    """
    all_of_them = found(run)
    if not all_of_them:
        raise UsageError(f"{run} holds no checkpoint; `coevo resume {run}` trains on and leaves one")
    newest = which in ("", "last", "newest")
    wanted = all_of_them[-1].step if newest else _best_step(run) if which == "best" else _step_of(which)
    for one in all_of_them:
        if one.step == wanted:
            require_whole(one)
            return one
    have = ", ".join(one.path.name for one in all_of_them)
    if which == "best":
        why = (
            "nothing was evaluated"
            if wanted is None
            else f"the best evaluation was that of step {wanted}, before training"
        )
        if wanted is None or wanted == 0:
            raise UsageError(f"{run} has no best checkpoint: {why}; it has {have}")
    raise UsageError(f"{run} holds no checkpoint {which!r}; it has {have} (the others were not kept)")


def _step_of(which: str) -> int | None:
    match = _NAME.fullmatch(which)
    return int(match[1]) if match else int(which) if which.isdecimal() else None


def _best_step(run: Path) -> int | None:
    from coevo.runs import Run
    from coevo.training.history import best_step

    with Run.open(run, write=False) as opened:
        return best_step(opened)


class Checkpoints:
    """Those of one run that is being written."""

    def __init__(self, engine: Engine, run: Path, keep: int) -> None:
        self.engine, self._run, self._keep = engine, run, keep
        self._damaged: set[int] = set()
        """Steps whose checkpoint could not be read; saved again where the run comes by them."""

    def has(self, step: int) -> bool:
        """Whether there is one of `step`, as far as is known a good one."""
        return step not in self._damaged and any(one.step == step for one in found(self._run))

    def save(self, step: int, *, card: str, about: Mapping[str, Any], best: int | None) -> Path:
        """Save the engine's state as that of `step`, then let go of what need not be kept.

        Kept are the newest ones and the one of step `best`. Raises `StoreError` where the disk refuses; nothing older is lost then.
        """
        path = self._run / FOLDER / name_of(step)
        try:
            where = self.engine.save(path.name)
            path.mkdir(parents=True, exist_ok=True)
            here = Path(where).resolve() == path.resolve()
            write_whole(path / CARD, card)
            mark = {"step": step, "state": None if here else where, **about}
            write_whole(path / MARK, sealed.text(mark, of=path, files=[RECORD] if (path / RECORD).is_file() else []))
        except (OSError, StoreError) as e:
            why = (e.strerror or str(e)) if isinstance(e, OSError) else str(e)
            raise StoreError(
                f"cannot save checkpoint {path}: {why}. Every step up to {step} is kept in {self._run / 'run.db'}, and "
                f"{self._kept()}; free some space, then `coevo resume {self._run}` goes on"
            ) from e
        self._damaged.discard(step)
        self._prune(best)
        return path

    def restore(self, *, up_to: int, note: Callable[[str], None]) -> int | None:
        """Load the newest state of a step up to `up_to`, optimizer included, and return its step; None when there is none.

        One that cannot be read is passed over, which is noted: the one before serves, since the updates after it are repeated.
        """
        for one in reversed(found(self._run)):
            if one.step > up_to:
                continue  # Newer than the last step that is in the database: a power cut took those.
            try:
                require_whole(one)
                self.engine.load(one.state, with_optimizer=True)
                return one.step
            except StoreError as e:
                self._damaged.add(one.step)
                note(f"checkpoint {one.path.name} cannot be read and is passed over: {e}")
        return None

    def _kept(self) -> str:
        steps = [one.path.name for one in found(self._run)]
        return f"so are the checkpoints {', '.join(steps)}" if steps else "no checkpoint was there yet"

    def _prune(self, best: int | None) -> None:
        all_of_them = found(self._run)
        for one in all_of_them[: -self._keep]:
            if one.step != best:
                (one.path / MARK).unlink(missing_ok=True)  # First: a folder half removed is no checkpoint.
                shutil.rmtree(one.path, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there as a whole, on the disk, or not at all."""
    part = path.with_name(f".{path.name}.new")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def model_card(
    *,
    run: str,
    base: str,
    step: int,
    steps: int,
    tasks: Sequence[str],
    recipe: Mapping[str, Any],
    recipe_digest: str,
    states: str,
    metrics: Mapping[str, Any],
    command: str,
    parent: str = "",
) -> str:
    """README.md of a checkpoint, in the form that model hubs read."""
    shown = ", ".join(tasks[:12]) + (f" and {len(tasks) - 12} more" if len(tasks) > 12 else "")
    head = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "tags: [coevo, reinforcement-learning]",
    ]
    if base:
        head.append(f"base_model: {json.dumps(base)}")
    rows = [f"| {name} | {value:.6g} |" for name, value in sorted(metrics.items()) if isinstance(value, int | float)]
    facts = [
        f"- base: `{base}`",
        *([f"- branch of: `{parent}`"] if parent else []),
        f"- step {step} of {steps}",
        f"- tasks trained on: {shown or 'those of the states'}",
        f"- start states: `{states}` (SHA-256)",
        f"- recipe: `{recipe_digest}` (SHA-256), below",
    ]
    return "\n".join(
        [
            *head,
            "---",
            "",
            f"# {run}, step {step}",
            "",
            "A policy trained with coevo on rewards from executing what it writes.",
            "",
            *facts,
            "",
            "## Figures of this step",
            "",
            "| name | value |",
            "|---|---|",
            *rows,
            "",
            "## Use",
            "",
            "```",
            command,
            "```",
            "",
            "## Recipe",
            "",
            "```json",
            json.dumps(recipe, indent=2, sort_keys=True),
            "```",
            "",
        ]
    )
