"""A trajectory as a value, and as a row of a data set: the schema of `data/*.parquet`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coevo.episodes.types import Source, StartState
from coevo.evolution.types import Attempt, Context, Edit
from coevo.models.types import Message
from coevo.programs import Program
from coevo.runs.jsontext import dumps

SCHEMA = 1
"""Of rows and manifest. Readers take all up to this one."""

SPLITS = ("train", "validation", "test")

_NUMBERS = ("fitness", "correctness", "efficiency", "speedup", "score")


@dataclass(frozen=True)
class Trajectory:
    """A start state and, where it is known, the next program with its fitness."""

    state: StartState
    split: str = "train"
    task_digest: str = ""
    statement: str = ""
    messages: tuple[Message, ...] = ()
    """The prompt, as `coevo.evolution.prompt.build_messages` writes it for this state."""
    next: Attempt | None = None
    outcome: str = ""
    """What followed: scored, failed, or why the reply made no program. Empty where nothing followed."""
    origin: str = ""
    """Where it comes from: the model that answered, the file of answers, or the run."""
    step: int | None = None
    """Of that search, or of the synthesis: it names stored replies and random streams."""
    seed: int = 0
    """Of the evaluations."""

    @property
    def gain(self) -> float | None:
        """Fitness of the next program less that of the current one."""
        before = self.state.context.parent.fitness
        after = self.next.fitness if self.next else None
        return after - before if before is not None and after is not None else None

    @property
    def id(self) -> str:
        """Content hash of the state and what followed."""
        return _hashed(self.state.id, self.next.program.id if self.next else "", self.outcome)


def state_id(task: str, style: Edit, context: Context) -> str:
    """Content hash of what a policy is put before: 16 hex digits over task, style, and the programs that are shown (current,
    history, inspirations) with the last rejection. Measured numbers do not count: they follow from the programs."""
    shown = [context.parent, *context.history], context.inspirations
    ids = [[attempt.program.id for attempt in attempts] for attempts in shown]
    return _hashed(task, style.value, dumps([*ids, context.rejected]))


def _hashed(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:16]


def schema() -> Any:
    """The Arrow schema of a data set's files."""
    import pyarrow as pa

    text, number, whole = pa.string(), pa.float64(), pa.int64()
    files = pa.list_(pa.struct([("name", text), ("text", text)]))
    attempt = pa.struct(
        [("program", text), ("main", text), ("files", files), *((n, number) for n in _NUMBERS), ("feedback", text)]
    )
    fields = [
        *((name, text) for name in ("id", "state", "task", "task_digest", "split", "source", "style")),
        ("depth", pa.int32()),
        ("headroom", number),
        ("statement", text),
        ("prompt", pa.list_(pa.struct([("role", text), ("content", text)]))),
        ("program", text),
        ("main", text),
        ("files", files),
        *((name, number) for name in _NUMBERS),
        ("feedback", text),
        ("history", pa.list_(attempt)),
        ("inspirations", pa.list_(attempt)),
        ("rejected", text),
        ("known", pa.list_(text)),
        ("next", attempt),
        ("next_fitness", number),
        ("gain", number),
        ("outcome", text),
        ("origin", text),
        ("step", whole),
        ("seed", whole),
    ]
    return pa.schema(fields)


def to_row(trajectory: Trajectory) -> dict[str, Any]:
    """Plain data in the shape of `schema`. Text that UTF-8 does not have (lone surrogates) is replaced by "?"."""
    state, context = trajectory.state, trajectory.state.context
    return {
        "id": trajectory.id,
        "state": state.id,
        "task": state.task,
        "task_digest": trajectory.task_digest,
        "split": trajectory.split,
        "source": state.source.value,
        "style": state.style.value,
        "depth": state.depth,
        "headroom": _finite(state.headroom),
        "statement": _text(trajectory.statement),
        "prompt": [{"role": m.role, "content": _text(m.content)} for m in trajectory.messages],
        **_attempt(context.parent),
        "history": [_attempt(attempt) for attempt in context.history],
        "inspirations": [_attempt(attempt) for attempt in context.inspirations],
        "rejected": _text(context.rejected),
        "known": sorted(state.known),
        "next": _attempt(trajectory.next) if trajectory.next else None,
        "next_fitness": _finite(trajectory.next.fitness) if trajectory.next else None,
        "gain": _finite(trajectory.gain),
        "outcome": trajectory.outcome,
        "origin": _text(trajectory.origin),
        "step": trajectory.step,
        "seed": trajectory.seed,
    }


def from_row(row: Mapping[str, Any]) -> Trajectory:
    """What `to_row` wrote. Raises `KeyError`, `TypeError` or `ValueError` for what is no such row."""
    context = Context(
        parent=_read_attempt(row),
        history=tuple(map(_read_attempt, row["history"])),
        inspirations=tuple(map(_read_attempt, row["inspirations"])),
        rejected=row["rejected"],
    )
    state = StartState(
        id=row["state"],
        task=row["task"],
        context=context,
        style=Edit(row["style"]),
        source=Source(row["source"]),
        depth=row["depth"],
        headroom=row["headroom"],
        known=frozenset(row["known"]),
    )
    return Trajectory(
        state=state,
        split=row["split"],
        task_digest=row["task_digest"],
        statement=row["statement"],
        messages=tuple(Message(m["role"], m["content"]) for m in row["prompt"]),
        next=_read_attempt(row["next"]) if row["next"] else None,
        outcome=row["outcome"],
        origin=row["origin"],
        step=row["step"],
        seed=row["seed"],
    )


def _attempt(attempt: Attempt) -> dict[str, Any]:
    program = attempt.program
    return {
        "program": program.id,
        "main": program.main,
        "files": [{"name": name, "text": _text(text)} for name, text in program.files],
        **{name: _finite(getattr(attempt, name)) for name in _NUMBERS},
        "feedback": _text(attempt.feedback),
    }


def _read_attempt(row: Mapping[str, Any]) -> Attempt:
    if not row["main"] or not isinstance(row["feedback"], str):
        raise ValueError("an attempt without a main file or feedback")
    program = Program.of({file["name"]: file["text"] for file in row["files"]}, row["main"])
    return Attempt(program, *(row[name] for name in _NUMBERS), feedback=row["feedback"])


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
