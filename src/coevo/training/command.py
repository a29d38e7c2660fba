"""Trainer `command`: the user's own trainer, as a process. It gets recipe.json and leaves a checkpoint and evidence.

Everything lies in `artifacts/command/` of the run:

    recipe.json       what to do and where things are (`hand_over` has the keys); its path is the command's last argument, and COEVO_RECIPE
    states.jsonl      the start states, one a line, each with its prompt as messages
    output.log        what the command printed
    checkpoint/       to be left by the command: a Hugging Face folder in safetensors, with the tokenizer
    evidence.jsonl    to be left by the command: one row of schema 1 per rollout, by non-decreasing step

What it leaves is checked: a checkpoint that is whole and finite, evidence whose every row is sound. Only then it becomes part of the run: the
checkpoint as `checkpoints/step-N`, the rows as rollouts. A resumed run starts the command again, unless it had ended well.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from coevo.errors import BudgetSpent, CoevoError, ConfigError, StoreError, boundary
from coevo.evaluation.pool_local import kill_tree
from coevo.evolution.interrupts import Interrupts
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Edit
from coevo.runs import Run
from coevo.runs.types import State, Ticket
from coevo.tasks.sets import load_tasks
from coevo.training import checkpoints, sealed
from coevo.training.entropy import EntropyState
from coevo.training.evidence_file import check_evidence, read_evidence
from coevo.training.filters import FilterState
from coevo.training.hf_folder import check_checkpoint
from coevo.training.history import past_of, summary
from coevo.training.result import Observer, StoppedBy, TrainProgress, TrainResult
from coevo.training.settings import Recipe
from coevo.training.sources import fixed_states

SCHEMA = 1
"""Of recipe.json."""

GRACE_S = 10.0
"""Between SIGTERM and SIGKILL."""

_POLL_S = 0.1
_TAIL = 400
_DIES_WITH_US = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); os.getppid() == int(sys.argv[1]) or os._exit(1); "
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def train_command(
    recipe: Recipe, run: Run, *, observer: Observer | None = None, weights: str = "", grace_s: float = GRACE_S
) -> TrainResult:
    """Run the command to its end, its budget of minutes, or a request to stop; check and keep what it left.

    `weights`: the folder that `recipe.base` stands for. Raises `ConfigError` for a command that cannot be started and states that cannot be
    read. A command that fails, or leaves what is not sound, gives a result `FAILED` whose message says what to mend.
    """
    desk = _Desk(recipe, run, weights, grace_s)
    with Interrupts(run.path) as interrupts:
        stopped_by, message = desk.go(interrupts)
    if stopped_by is StoppedBy.STEPS:
        desk.tell(observer)
    run.mark(State.FINISHED if stopped_by is StoppedBy.STEPS else State.STOPPED, by=message)
    saved = checkpoints.found(run.path)
    return TrainResult(
        steps=past_of(run).made,
        stopped_by=stopped_by,
        message=message,
        last=saved[-1].path if saved else None,
        metrics=summary(run),
        spent=run.ledger.spent(),
    )


class _Desk:
    def __init__(self, recipe: Recipe, run: Run, weights: str, grace_s: float) -> None:
        self.recipe, self.run, self.weights, self.grace_s = recipe, run, weights, grace_s
        self.folder = run.artifacts / "command"
        self.checkpoint, self.evidence = self.folder / "checkpoint", self.folder / "evidence.jsonl"
        self.log = self.folder / "output.log"

    def go(self, interrupts: Interrupts) -> tuple[StoppedBy, str]:
        if steps := past_of(self.run).made:
            self._place(steps, {})
            return StoppedBy.STEPS, "the command had ended well, and what it left was kept"
        if not self._ended_well():
            try:
                end = self._run(interrupts)
            except BudgetSpent as e:
                return StoppedBy.BUDGET, str(e)
            if end is not None:
                return end
        return self._keep()

    def tell(self, observer: Observer | None) -> None:
        if observer is None:
            return
        made = past_of(self.run).made
        figures = {name: value for name, value in summary(self.run).items() if isinstance(value, int | float)}
        try:
            observer(TrainProgress(made, made, figures, spent=self.run.ledger.spent()))
        except Exception as e:
            print(f"warning: the observer raised {type(e).__name__}: {e}", file=sys.stderr)

    # The process

    def _run(self, interrupts: Interrupts) -> tuple[StoppedBy, str] | None:
        """Start the command and wait for it. None when it ended with 0."""
        argv = list(self.recipe.command)
        if shutil.which(argv[0]) is None:
            raise ConfigError(f"command {argv[0]!r} is not a program on this machine; give its path, or put it on PATH")
        self.run.ledger.release(self.run.ledger.reserve("train", evaluations=0))  # Raises when nothing is left.
        file = hand_over(self.recipe, self.run, weights=self.weights, deadline_s=self._left_s())
        attempt = 1 + sum(1 for _ in self.run.events(kinds=("command",)))
        with boundary(StoreError, f"command {argv[0]!r}"), self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _DIES_WITH_US, str(os.getpid()), *argv, str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "COEVO_RECIPE": str(file)},
            )
        begun = time.monotonic()
        try:
            stopped = self._wait(process, interrupts)
        finally:
            kill_tree(process)
        code = process.returncode
        payload = {
            "attempt": attempt,
            "exit_code": code,
            "stopped": stopped[0] if stopped else "",
            "wall_s": time.monotonic() - begun,
        }
        self.run.append("command", payload)
        if stopped is not None:
            return stopped
        if code:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            return StoppedBy.FAILED, f"the command {how}: {self._tail()} (all of it: {self.log})"
        return None

    def _wait(self, process: subprocess.Popen[bytes], interrupts: Interrupts) -> tuple[StoppedBy, str] | None:
        """None when the command ended by itself; else it was asked to, and what for."""
        while process.poll() is None:
            left = self._left_s()
            if interrupts.requested():
                self._ask(process)
                return StoppedBy.INTERRUPTED, f"asked to stop by {interrupts.cause}; the command was ended"
            if left is not None and left <= 0:
                self._ask(process)
                return StoppedBy.BUDGET, f"the budget of {self.run.ledger.budget} is spent; the command was ended"
            time.sleep(_POLL_S if left is None else min(_POLL_S, max(0.01, left)))
        return None

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM to its group, then some time to save."""
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            return

    def _left_s(self) -> float | None:
        minutes = self.run.ledger.remaining()["minutes"]
        return None if minutes is None else 60 * minutes

    def _ended_well(self) -> bool:
        codes = [
            event.payload["exit_code"] == 0 and not event.payload["stopped"]
            for event in self.run.events(kinds=("command",))
        ]
        return bool(codes) and codes[-1]

    def _tail(self) -> str:
        lines = [
            line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
        return " / ".join(lines[-3:])[-_TAIL:] or "it printed nothing"

    # What it left

    def _keep(self) -> tuple[StoppedBy, str]:
        try:
            about = check_checkpoint(self.checkpoint)
            count = check_evidence(self.evidence)
        except CoevoError as e:
            return StoppedBy.FAILED, (
                f"{e}. What the command left is in {self.folder}: mend it there and `coevo resume {self.run.path}` looks again, "
                "without running the command"
            )
        steps = self._import()
        self._place(steps, about)
        return (
            StoppedBy.STEPS,
            f"the command ended well: {count:,} rollouts over {steps} steps, {about['parameters']:,} parameters",
        )

    def _place(self, steps: int, about: Mapping[str, Any]) -> None:
        """The checkpoint among the run's own; done again where a kill came between the rows and this."""
        path = self.run.path / checkpoints.FOLDER / checkpoints.name_of(steps)
        if (path / checkpoints.MARK).is_file():
            return
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            self.checkpoint.rename(path)
        mark = {"step": steps, "state": None, "command": list(self.recipe.command), **about}
        files = sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file() and p.name != checkpoints.CARD)
        checkpoints.write_whole(path / checkpoints.MARK, sealed.text(mark, of=path, files=files))

    def _import(self) -> int:
        """All rows as rollouts of the run, and the events of their steps, in one transaction: all or nothing. Returns the last step."""
        last = 0
        with self.run.transaction():
            ticket = self._ticket()
            total = tokens = 0
            for step, rows in groupby(read_evidence(self.evidence), key=lambda row: row["step"]):
                kept = [{**row, "run": self.run.path.name, "branch": row["branch"] or "main"} for row in rows]
                total, tokens, last = total + len(kept), tokens + sum(row["tokens"] or 0 for row in kept), step
                train = [row for row in kept if row["split"] == "train"]
                batch = {"skipped": "", "metrics": _figures(train or kept), "filter": FilterState().to_dict()}
                self.run.append("batch", batch, step=step)
                self.run.put_rollouts(kept, step=step)
                update = {"skipped": "", "version": step, "metrics": {}, "entropy": EntropyState().to_dict()}
                self.run.append("update", update, step=step)
            if ticket is not None:
                self.run.ledger.settle(ticket, evaluations=total, tokens=tokens)
        return last

    def _ticket(self) -> Ticket | None:
        """To charge what was done. A budget that ended with the command is no reason to lose its work."""
        try:
            return self.run.ledger.reserve("train", evaluations=0)
        except BudgetSpent:
            return None


def hand_over(recipe: Recipe, run: Run, *, weights: str, deadline_s: float | None) -> Path:
    """Write recipe.json and states.jsonl into the run; returns the former's path. Its keys:

    schema        1
    run           the run's name, for the rows' `run`
    recipe        the whole recipe, defaults filled in
    weights       folder of the weights to start from (or the name in `recipe.base`, where it is none)
    states        path of states.jsonl, or null where the recipe names no tasks or data
    out           folder in which to leave the checkpoint
    evidence      file to which to write the evidence rows
    deadline_s    wall seconds left of the budget, or null; at its end comes SIGTERM, and 10 s later SIGKILL
    seed, steps   of the recipe

    Raises `ConfigError` for states that cannot be read.
    """
    folder = run.artifacts / "command"
    folder.mkdir(parents=True, exist_ok=True)
    states = _write_states(recipe, folder / "states.jsonl")
    told = {
        "schema": SCHEMA,
        "run": run.path.name,
        "recipe": recipe.model_dump(mode="json"),
        "weights": weights or recipe.base,
        "states": str(states.resolve()) if states else None,
        "out": str((folder / "checkpoint").resolve()),
        "evidence": str((folder / "evidence.jsonl").resolve()),
        "deadline_s": deadline_s,
        "seed": recipe.seed,
        "steps": recipe.steps,
    }
    file = (folder / "recipe.json").resolve()
    file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return file


def _write_states(recipe: Recipe, file: Path) -> Path | None:
    """One line per start state: id, task, task_folder, source, style, headroom, messages, and the current program with its fitness."""
    given = recipe.states
    if given.mix.get("policy"):
        raise ConfigError(
            "trainer command cannot have states.mix policy: the policy is out of reach while the command runs"
        )
    if not (given.tasks or given.trajectories or given.runs):
        return None
    fixed, known = fixed_states(given, {task.name: task for task in load_tasks(given.tasks)}, seed=recipe.seed)
    with file.open("w", encoding="utf-8") as out:
        for states in fixed.values():
            for state in states:
                task, parent = known[state.task], state.context.parent
                messages = build_messages(
                    TaskView.of(task.config), state.context, style=state.style, max_chars=recipe.episode.prompt_chars
                )
                row: dict[str, Any] = {
                    "id": state.id,
                    "task": state.task,
                    "task_folder": str(task.folder.resolve()),
                    "source": state.source.value,
                    "style": state.style.value,
                    "headroom": state.headroom,
                    "messages": [{"role": one.role, "content": one.content} for one in messages],
                    "program": None if state.style is Edit.WRITE else dict(parent.program.files),
                    "fitness": parent.fitness,
                }
                out.write(json.dumps(row) + "\n")
    return file


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """A step's metrics, by the names that trainer grpo uses, from its rows."""
    known = {
        "reward_mean": [row["reward"] for row in rows],
        "reward_mean_kept": [row["reward"] for row in rows if row["kept"] is not False],
        "fitness": [row["fitness"] for row in rows],
        "gain": [
            row["fitness"] - row["parent_fitness"] if None not in (row["fitness"], row["parent_fitness"]) else None
            for row in rows
        ],
        "truth": [row["truth"] for row in rows],
        "share_right": [row["meaning_ok"] for row in rows],
        "contract_ok": [row["contract_ok"] for row in rows],
        "length": [row["tokens"] for row in rows],
        "entropy": [row["entropy_mean"] for row in rows],
    }
    found: dict[str, float] = {
        "rollouts": len(rows),
        "unmeasured": sum(1 for row in rows if row["unmeasured_reason"]) / len(rows),
    }
    for name, values in known.items():
        numbers = [float(value) for value in values if value is not None]
        if numbers:
            found[name] = math.fsum(numbers) / len(numbers)
    return found


__all__ = ["GRACE_S", "hand_over", "train_command"]
