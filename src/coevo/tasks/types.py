"""A task: what is asked, how an answer is judged, and under which limits.

A task is a folder (docs/tasks.md shows one being written in five minutes):

    task.yaml     `TaskConfig` below
    program.py    the starting program, or program/ with several files
    tests.jsonl   kinds function and stdio: {"split": "public" | "hidden", "args": [...], "expected": ...}
                  or {"split": ..., "stdin": "...", "stdout": "..."}
    generate.py   instead of, or beside, tests.jsonl: def generate(size: int, rng: random.Random) -> arguments (a
                  tuple; kind function) or standard input (a str; kind stdio).
                  Kind open, instead of, or beside, `instances` in task.yaml: def instances(split: str, rng: random.Random)
                  -> list of keyword arguments of the entry. `rng` depends on the split alone.
    reference.py  kinds function and stdio: the program whose answers and speed are the yardstick
    checker.py    checker "custom": def check(output, expected, arguments) -> bool or {"ok": bool, "feedback": str}
    score.py      kind open: def score(output, instance) -> float or {"score": float, "feedback": str, ...}; the score of
                  a split is the mean over its instances. Or, where answers must be seen together,
                  def score_all(outputs, instances) -> the same, once for the whole split (used alone when present).
                  An answer that breaks a rule raises `coevo.tasks.exact.Infeasible`, whose message is feedback;
                  other keys of the mapping are plain data and end up in `Evaluation.extra`
    baseline.py   optional, kind open: a no-LLM optimiser with the same entry; its `seconds` argument bounds its CPU
    draw.py       optional: def draw(output, instance, axes) -> None, a picture of an answer

One folder may hold a family: with `parameters: {n: {default: 26, min: 2, max: 200}}` in task.yaml, `load_task("name:n=29")`
replaces `{n}` in statement, title and citation, replaces instance values that are exactly the text "{n}" by the number, and
looks up `best_known_table["n=29"]`. A folder whose task.yaml is only `alias: circle_packing:n=26` is another name of that task.

`program`, `reference` and `baseline` are only ever executed in the sandbox. `generate`, `checker`, `score` and `draw` are the
judge: trusted code of the task's author, run outside, and they see nothing of a candidate but plain data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from coevo.config import Config
from coevo.programs import Program
from coevo.sandbox.types import Limits, Preload

Split = Literal["public", "hidden"]
"""Public tests steer a search and may appear in feedback. Hidden ones only ever report."""


class Kind(StrEnum):
    """What an answer is."""

    FUNCTION = "function"
    """A function, called with arguments; its return values are compared."""
    STDIO = "stdio"
    """A script that reads standard input and writes standard output."""
    OPEN = "open"
    """A function whose return value is scored; there is no right answer, only better ones."""
    MATH = "math"
    """Reserved: a final answer in text."""
    REPO = "repo"
    """Reserved: changes to a repository, judged by its tests."""
    OPENEVOLVE = "openevolve"
    """A foreign folder whose evaluator runs beside the candidate, all of it inside the sandbox."""


class Checker(Config):
    """How an output is compared with the expected one, outside the sandbox."""

    name: Literal["exact", "tokens", "floats", "unordered", "custom"] = "exact"
    """exact: equal plain data of equal types (for text: trailing space of lines and text does not count)."""
    rel: float = Field(default=1e-6, ge=0)
    """Relative tolerance of `floats` (and of numbers inside `unordered` when > 0)."""
    abs: float = Field(default=1e-9, ge=0)
    """Absolute tolerance of `floats`."""


class Generated(Config):
    """Tests made by generate.py for one split: one test per size, `repeat` times, each from its own seed."""

    sizes: tuple[int, ...] = Field(min_length=1)
    repeat: int = Field(default=1, ge=1, le=1000)


class Timing(Config):
    """At which size speed is compared with the reference (see `coevo.evaluation.efficiency`)."""

    size: int
    """Given to generate.py. Choose it so that the reference needs 20 ms or more."""
    inputs: int = Field(default=3, ge=1, le=100)
    """Different inputs per timed run."""


class BestKnown(Config):
    """The best published value; never shown to a candidate or a model."""

    value: float
    source: str


class Parameter(Config):
    """A whole number that tells the members of a family of tasks apart."""

    default: int
    """Used when the reference does not name it: `circle_packing` is `circle_packing:n=26`."""
    min: int
    max: int


class TaskAlias(Config):
    """The whole content of a task.yaml that only gives another task a second name."""

    alias: str
    """What `load_task` takes: "circle_packing:n=26"."""


class FitnessConfig(Config):
    """How correctness and efficiency become one number (see `coevo.evaluation.fitness`)."""

    name: Literal["weighted", "metaevolve", "correctness"] = "weighted"
    correctness: float = Field(default=0.7, ge=0)
    efficiency: float = Field(default=0.3, ge=0)


class TaskConfig(Config):
    """The content of task.yaml."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*(:[a-z_]+=-?\d+(,[a-z_]+=-?\d+)*)?$", max_length=80)
    """The folder's name; of a family's member, the full reference, parameters in the order of `parameters`."""
    kind: Kind
    statement: str = Field(min_length=1)
    """Shown to models, as written."""
    title: str = ""
    entry: str | None = None
    """Function the program must define (kinds function and open)."""
    direction: Literal["max", "min"] = "max"
    """Kind open: whether a higher or a lower score is better."""
    best_known: BestKnown | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    """Kind open: makes the folder a family. Empty again once `load_task` has put values in."""
    best_known_table: dict[str, BestKnown] = Field(default_factory=dict)
    """Of a family, by parameter values ("n=26", or "dim=2,n=16" with names sorted). `best_known` serves those not listed."""
    instances: dict[Split, list[dict[str, Any]]] = Field(default_factory=dict)
    """Kind open: keyword arguments of the entry, per split. Without hidden ones, the public ones are run again on a fresh seed."""
    fresh_process: bool = False
    """Kind open: every instance in a process of its own, so that nothing learnt from one can help with the next."""
    tests: dict[Split, Generated] = Field(default_factory=dict)
    """Kinds function and stdio: what generate.py makes, per split (added to tests.jsonl)."""
    timing: Timing | None = None
    """Kinds function and stdio: without it, efficiency is not measured and fitness is correctness."""
    checker: Checker = Checker()
    limits: Limits = Limits()
    preload: Preload = Preload.STDLIB
    fitness: FitnessConfig = FitnessConfig()
    tags: tuple[str, ...] = ()
    citation: str = ""


@dataclass(frozen=True)
class Test:
    """One test of kind function (`args`, `kwargs`) or stdio (`stdin`): plain data, with the expected output."""

    __test__ = False

    split: Split
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    stdin: str = ""
    expected: Any = None
    name: str = ""


@dataclass(frozen=True)
class Task:
    """A loaded task folder. Loading executes nothing: tests are made by `coevo.evaluation.judge`."""

    config: TaskConfig
    folder: Path
    start: Program
    reference: Program | None = None
    baseline: Program | None = None
    written_tests: Sequence[Test] = ()
    """Those of tests.jsonl (of a task loaded lazily: read whenever asked for); what generate.py makes is added when the task is judged."""
    source_files: tuple[str, ...] = ()
    """Names of the judge's files in `folder` that the digest covers."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def kind(self) -> Kind:
        return self.config.kind
