"""The prompt: what a model sees of a task, a program and its past. One builder for search and for training.

A policy is trained on exactly what it will see, so nothing else in coevo writes prompts. The content follows
MetaEvolve (arXiv 2607.21971): statement, current program, its fitness and feedback, and one to three earlier
attempts sorted by fitness. What is the same for every step of a task comes first, so that endpoints can
reuse their prefix cache. Best known values, tests and anything hidden never get here: `TaskView` has no
field for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

from coevo.errors import UsageError
from coevo.evolution import blocks
from coevo.evolution.syntax import parse
from coevo.evolution.types import Attempt, Context, Edit
from coevo.models.types import Message
from coevo.programs import Program
from coevo.sandbox.types import Preload
from coevo.tasks.types import Kind, TaskConfig

MAX_CHARS = 32_000
"""Default bound of a prompt in characters, some 8,000 to 11,000 tokens."""

MAX_HISTORY = 3
MAX_INSPIRATIONS = 3
MAX_FEEDBACK = 2_000
"""Characters of one program's feedback that are shown at most."""
MAX_REJECTED = 600
MAX_TICKS = 32
"""The longest code fence."""
_TOO_MANY_TICKS = re.compile(f"`{{{MAX_TICKS},}}")

SYSTEM = "You improve Python programs. You answer with code in exactly the format that is asked for."
SYSTEM_WRITE = "You write Python programs. You answer with code in exactly the format that is asked for."

_IMPORTABLE = {
    Preload.STDLIB: "the standard library",
    Preload.NUMPY: "the standard library and numpy",
    Preload.NUMPY_SCIPY: "the standard library, numpy and scipy",
}


@dataclass(frozen=True)
class TaskView:
    """What a model may know of a task."""

    statement: str
    kind: Kind
    entry: str | None = None
    direction: str = "max"
    timed: bool = False
    """Whether speed counts once every test passes."""
    importable: str = "the standard library"
    cpu_s: float = 10.0
    memory_mb: int = 512

    @classmethod
    def of(cls, config: TaskConfig) -> TaskView:
        """The part of a task's config that is meant for models."""
        return cls(
            statement=config.statement.strip(),
            kind=config.kind,
            entry=config.entry,
            direction=config.direction,
            timed=config.timing is not None,
            importable=_IMPORTABLE[config.preload],
            cpu_s=config.limits.cpu_s,
            memory_mb=config.limits.memory_mb,
        )


def build_messages(view: TaskView, context: Context, *, style: Edit, max_chars: int = MAX_CHARS) -> tuple[Message, ...]:
    """The messages for one step: a system and a user message of at most `max_chars` characters together.

    What does not fit goes in this order: earlier attempts (worst first), inspirations (last first; a crossover keeps one),
    then the end of the feedback. Statement and current program are never shortened: if they do not fit, a
    `UsageError` says what is needed. `style` is rewrite, diff or crossover; or write, which shows the statement alone: of the
    context only what the start program (its parent) says of the entry, its signature and docstring.
    """
    parts = _Parts.of(view, context, style)
    text = parts.text()
    system = SYSTEM_WRITE if style is Edit.WRITE else SYSTEM
    while (excess := len(system) + len(text) - max_chars) > 0:
        shorter = parts.shortened(excess)
        if shorter is None:
            raise UsageError(
                f"the prompt needs {max_chars + excess:,} characters for the statement, the rules and the current program "
                f"alone, and max_chars is {max_chars:,}. Raise it, or start from a shorter program"
            )
        parts = shorter
        text = parts.text()
    return Message("system", system), Message("user", text)


def build_next(before: Attempt | None, after: Attempt | None, *, style: Edit, rejected: str = "") -> Message:
    """What a policy is told after a reply, where a conversation goes on: facts, and the same request again.

    `before` is the current program that the reply was to improve (None: there is none yet, as after a first `write`); `after`
    the reply's own program as it was judged, or None where `rejected` says why there is none. A program becomes the current one
    when it is strictly better (`better`). After a diff it is shown, since SEARCH must repeat it.
    """
    sections: list[str] = []
    current = before
    if after is None:
        sections.append(f"Your answer was rejected: {_cut(_clean(rejected), MAX_REJECTED)}")
    else:
        than = f" Before: {_measures(before)}." if before else ""
        sections.append(f"Your program: {_measures(after)}.{than}")
        if feedback := _cut(_clean(after.feedback), MAX_FEEDBACK):
            sections.append(f"Feedback:\n{_fenced(feedback, 'text')}")
        if better(after, before):
            current = after
            sections.append("Your program is the current program now.")
            if style is Edit.DIFF:
                sections.append(_sources(after.program))
    if after is None or current is not after:
        sections.append("The current program stays as it was." if current else "There is no current program yet.")
    goal = "Write a better version of the current program." if current else "Write the program."
    return Message("user", "\n\n".join([*sections, f"{goal} Answer in the same form."]))


def better(attempt: Attempt, than: Attempt | None) -> bool:
    """Whether an attempt becomes the current program of a conversation: strictly fitter than the one before, or the first there is."""
    return attempt.fitness is not None and (than is None or than.fitness is None or attempt.fitness > than.fitness)


def worst_case_chars(
    view: TaskView, start: Program, *, style: Edit, program_chars: int, max_chars: int = MAX_CHARS
) -> int:
    """The longest prompt that descendants of `start` of up to `program_chars` characters can lead to.

    For reserving budget: no context, whatever its feedback and history, gives a longer one.
    """
    padding = "#" * max(0, program_chars - start.size)
    program = start.with_source(start.source + padding)
    number = -1.23456789123456e-101
    worst = Attempt(program, number, number, number, number, None, "x" * MAX_FEEDBACK)
    parts = _Parts(
        view, style, worst, (worst,) * MAX_HISTORY, (worst,) * MAX_INSPIRATIONS, "x" * MAX_FEEDBACK, "x" * MAX_REJECTED
    )
    fences = (1 + MAX_HISTORY + MAX_INSPIRATIONS) * len(program.files) + 1
    return min(max_chars, len(SYSTEM) + len(parts.text()) + fences * 2 * MAX_TICKS)


@dataclass(frozen=True)
class _Parts:
    """Everything that goes into the user message; `text` lays it out, `shortened` drops the next thing to go."""

    view: TaskView
    style: Edit
    parent: Attempt
    history: tuple[Attempt, ...]
    others: tuple[Attempt, ...]
    feedback: str
    rejected: str

    @classmethod
    def of(cls, view: TaskView, context: Context, style: Edit) -> _Parts:
        if style is Edit.WRITE:
            return cls(view, style, context.parent, (), (), "", "")
        if style not in (Edit.REWRITE, Edit.DIFF, Edit.CROSSOVER):
            raise UsageError(f"no model writes a {style.value!r}; the styles are rewrite, diff, crossover and write")
        seen = {context.parent.program.id}
        others = _fresh(context.inspirations, seen)[:MAX_INSPIRATIONS]
        history = _fresh(sorted(context.history, key=_rank), seen)[-MAX_HISTORY:]
        feedback = _cut(_clean(context.parent.feedback), MAX_FEEDBACK)
        rejected = _cut(_clean(context.rejected), MAX_REJECTED)
        return cls(view, style, context.parent, history, others, feedback, rejected)

    def shortened(self, excess: int) -> _Parts | None:
        if self.history:
            return replace(self, history=self.history[1:])
        if len(self.others) > (1 if self.style is Edit.CROSSOVER else 0):
            return replace(self, others=self.others[:-1])
        if self.feedback:
            return replace(self, feedback=_cut(self.feedback, max(0, len(self.feedback) - excess)))
        if self.rejected:
            return replace(self, rejected=_cut(self.rejected, max(0, len(self.rejected) - excess)))
        return None

    def text(self) -> str:
        sections = [f"# Task\n\n{self.view.statement}", _rules(self.view, self.parent.program, self.style)]
        if self.style is Edit.WRITE:
            sections.append(_ask_write(self.view, self.parent.program))
            return "\n\n".join(sections) + "\n"
        if self.history:
            shown = [_attempt(f"Attempt {i}", a) for i, a in enumerate(self.history, 1)]
            sections.append("\n\n".join(["# Earlier attempts, worst first", *shown]))
        if self.others:
            shown = [_attempt(f"Program {i}", a) for i, a in enumerate(self.others, 1)]
            sections.append("\n\n".join(["# Other programs for the same task", *shown]))
        current = f"# Current program: {_measures(self.parent)}\n\n{_sources(self.parent.program)}"
        if self.feedback:
            current += f"\n\nFeedback:\n{_fenced(self.feedback, 'text')}"
        sections.append(current)
        if self.rejected:
            sections.append(f"# Your last answer was rejected\n\n{self.rejected}")
        sections.append(_ask(self.style, self.parent.program, bool(self.others)))
        return "\n\n".join(sections) + "\n"


def _fresh(attempts: Iterable[Attempt], seen: set[str]) -> tuple[Attempt, ...]:
    """The attempts whose program was not seen before; of equal ones the last."""
    kept: list[Attempt] = []
    for attempt in reversed(tuple(attempts)):
        if attempt.program.id not in seen:
            seen.add(attempt.program.id)
            kept.append(attempt)
    return tuple(reversed(kept))


def _rank(attempt: Attempt) -> float:
    return attempt.fitness if attempt.fitness is not None else float("-inf")


def _clean(text: str) -> str:
    """Text that any endpoint takes: what a candidate printed may hold NUL bytes and lone surrogates."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode("utf-8").strip()


def _cut(text: str, limit: int) -> str:
    mark = " [...]"
    if len(text) <= limit:
        return text
    return text[: limit - len(mark)].rstrip() + mark if limit > 2 * len(mark) else ""


def _rules(view: TaskView, program: Program, style: Edit) -> str:
    lines: list[str] = []
    entry = f"`{view.entry}`" if view.entry else "the entry function"
    if view.kind is Kind.STDIO:
        lines.append("The program is a script: it reads standard input and writes standard output.")
    elif view.kind in (Kind.FUNCTION, Kind.OPEN):
        lines.append(f"{program.main} must define {entry}, which returns plain data.")
    if view.kind in (Kind.FUNCTION, Kind.STDIO):
        speed = ", and then with speed" if view.timed else ""
        lines.append(f"Fitness grows with the share of tests passed{speed}. Higher is better.")
    elif view.kind is Kind.OPEN:
        better = "lower" if view.direction == "min" else "higher"
        lines.append(f"What {entry} returns is scored: a {better} score is better, and gives a higher fitness.")
    else:
        lines.append("An evaluator runs the program and gives it a fitness. Higher is better.")
    lines.append(f"You can import {view.importable}, nothing else. There is no network.")
    lines.append(f"Each run may use {view.cpu_s:g} s of CPU time and {view.memory_mb} MB of memory.")
    if style is not Edit.WRITE and _blocks(program):
        lines.append(f"Only the lines between `# {blocks.START}` and `# {blocks.END}` may change.")
    return "# Rules\n\n" + "\n".join(f"- {line}" for line in lines)


def _blocks(program: Program) -> int:
    return sum(text.count(blocks.START) for _, text in program.files)


def _attempt(title: str, attempt: Attempt) -> str:
    shown = f"## {title}: {_measures(attempt)}\n\n{_sources(attempt.program)}"
    feedback = _cut(" ".join(_clean(attempt.feedback).split()), MAX_FEEDBACK // 5)
    return f"{shown}\n\nFeedback: {feedback}" if feedback else shown


def _measures(attempt: Attempt) -> str:
    if attempt.fitness is None:
        return "not measured"
    if attempt.score is not None:  # Alone: fitness beside it would tell the best known value by division.
        return f"score {attempt.score:.10g}"
    parts = [
        ("correctness", attempt.correctness, ".4g"),
        ("efficiency", attempt.efficiency, ".4g"),
    ]
    named = [f"{name} {value:{form}}" for name, value, form in parts if value is not None]
    if attempt.speedup is not None:
        named.append(f"{attempt.speedup:.3g} times the reference's speed")
    return f"fitness {attempt.fitness:.6g}" + (f" ({', '.join(named)})" if named else "")


def _sources(program: Program) -> str:
    if len(program.files) == 1:
        return _fenced(program.source, "python")
    return "\n\n".join(f"### file: {name}\n{_fenced(text, 'python')}" for name, text in program.files)


def _fenced(text: str, tag: str) -> str:
    """The text in a fence longer than any run of backticks in it; runs too long for that are shortened."""
    if "```" not in text:
        return f"```{tag}\n{text.rstrip()}\n```"
    text = _TOO_MANY_TICKS.sub("`" * (MAX_TICKS - 1), text)
    ticks = min(max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1, MAX_TICKS)
    return f"{'`' * ticks}{tag}\n{text.rstrip()}\n{'`' * ticks}"


_DIFF = """\
Improve the current program. Answer with one or more edits in exactly this form:

<<<<<<< SEARCH
lines of the current program, copied exactly
=======
the lines that take their place
>>>>>>> REPLACE

Each SEARCH must match one place in the current program. To insert, repeat a line next to the place."""


def _ask(style: Edit, program: Program, others: bool) -> str:
    """What to do, and in which form to answer."""
    several = len(program.files) > 1
    name = " Before each, put a line `### file: NAME` that names its file." if several else ""
    if style is Edit.DIFF:
        return f"# Answer\n\n{_DIFF}{name.replace('each', 'the edits of a file')}"
    if style is Edit.CROSSOVER and others:
        goal = "Write a program that joins the best ideas of the current program and of the other programs."
    else:
        goal = "Write a better version of the current program."
    if several:
        form = "Give every file that changes, complete, in its own ```python code fence." + name
    elif _blocks(program) > 1:
        form = "Give the complete program with all its markers in one ```python code fence."
    elif _blocks(program):
        form = "Give everything that belongs between the two markers in one ```python code fence."
    else:
        form = "Give the complete program in one ```python code fence."
    return f"# Answer\n\n{goal} {form}"


def _ask_write(view: TaskView, start: Program) -> str:
    """What to write, from nothing: the start program shows how its entry is called, never how it works."""
    ask = "# Answer\n\nWrite the program. Give it complete in one ```python code fence."
    head = _signature(start.source, view.entry) if view.entry else None
    return f"{ask} It defines:\n\n{_fenced(head, 'python')}" if head else ask


def _signature(source: str, entry: str) -> str | None:
    """The head of the function `entry` with its docstring, in the parser's own layout; None where the source has no such function."""
    tree = parse(source)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)] if tree else []
    node = next((node for node in reversed(found) if node.name == entry), None)
    if node is None:
        return None
    head = copy(node)  # the tree is shared
    head.body = node.body[:1] if ast.get_docstring(node) is not None else [ast.Expr(ast.Constant(...))]
    head.decorator_list = []
    return ast.unparse(head)
