"""What tests of episodes stand on: graded tasks, start states, a policy that answers from a table with a real tokenizer, pools."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from coevo.engines.codec import ChatCodec
from coevo.episodes.types import Source, Start, StartState
from coevo.errors import UsageError
from coevo.evaluation.judges import Judges
from coevo.evaluation.pool import InlinePool
from coevo.evolution.types import Attempt, Context, Edit
from coevo.models.sampler import Prompt, Sampled
from coevo.models.types import StopReason
from coevo.programs import Program
from coevo.tasks.types import Task
from tests.evaluation.folders import lines, make_task
from tests.models import tiny

START = Program.of("def f(x):\n    return x\n")


def ramp_task(folder: Path, number: int = 3, **more: str) -> Task:
    """f(x) = x + number for x = 0..3 (public) and 10..13 (hidden); a program that is right up to k scores by its share."""
    tests = [
        {"split": split, "args": [x], "expected": x + number}
        for split, xs in (("public", range(4)), ("hidden", range(10, 14)))
        for x in xs
    ]
    checker = {"checker": {"name": "custom"}} if "checker_py" in more else {}
    limits = {"cpu_s": 2, "memory_mb": 128}
    return make_task(
        folder,
        {"kind": "function", "entry": "f", "statement": f"Add {number}.", "limits": limits, **checker},
        program_py=START.source,
        tests_jsonl=lines(*tests),
        **more,
    )


def upto(k: int, number: int = 3, note: str = "") -> str:
    """Source that is right for x < k of public tests and x < 10 + k of hidden ones."""
    return f"def f(x):\n    return x + {number} if x % 10 < {k} else None{note}\n"


def fenced(source: str) -> str:
    return f"Here it is.\n\n```python\n{source}```"


def state_of(
    task: Task, *, fitness: float | None = 0.0, style: Edit = Edit.REWRITE, program: Program = START, **more: Any
):
    context = Context(
        Attempt(program, fitness, fitness, feedback="f(0) gave 0, expected 3"), history=more.pop("history", ())
    )
    name = f"{task.name}-{style}-{program.id}-{len(context.history)}"
    return StartState(name, task.name, context, style, Source.SYNTH, **more)


def starts_of(state: StartState, count: int, group: str = "g") -> list[Start]:
    return [Start(state, group, sample) for sample in range(count)]


@lru_cache(maxsize=2)
def tokenizer(template: str | None = tiny.TEMPLATE):
    return tiny.make_tokenizer(template)


class TablePolicy:
    """Answers with `answer(text so far, seed, number of the call)`: a text (ended by the end token), or (ids, stop reason)."""

    version = 5

    def __init__(
        self,
        answer: Callable[[str, int, int], str | tuple[tuple[int, ...], StopReason]],
        *,
        context: int | None = None,
        tell: bool = True,
        template: str | None = tiny.TEMPLATE,
    ) -> None:
        self._tokenizer = tokenizer(template)
        self.codec = ChatCodec(self._tokenizer, frozenset({2}))
        self.capabilities = SimpleNamespace(max_tokens=context)
        self._answer, self._tell = answer, tell
        self.seen: list[list[Prompt]] = []

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        self.seen.append(list(prompts))
        found = []
        for index, prompt in enumerate(prompts):
            answer = self._answer(self._tokenizer.decode(prompt.ids), prompt.seed, len(self.seen) - 1)
            if isinstance(answer, str):
                ids, reason = (*self.codec.encode(answer), 2), StopReason.STOP
            else:
                ids, reason = answer
            assert len(ids) <= prompt.max_new, "the table's reply is longer than asked for"
            logprobs = tuple(-0.5 - (prompt.seed + i) % 97 / 97 for i in range(len(ids)))
            found.append(Sampled(ids, logprobs, reason))
            if each is not None and self._tell:
                each(index, found[-1])
        return found


class CountingPool(InlinePool):
    """Judges in this process, and remembers which functions were asked for with which arguments."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(lambda: Judges(list(tasks)))
        self.jobs: list[tuple[Any, ...]] = []

    def submit(self, fn, *args, deadline_s=None):
        self.jobs.append((fn.__name__, *args))
        return super().submit(fn, *args, deadline_s=deadline_s)

    def judged(self) -> list[tuple[Any, ...]]:
        """(task, program, split) of each evaluation."""
        return [job[1:4] for job in self.jobs if job[0] == "measure"]


class BadJudges(Judges):
    """Judges on a machine in trouble: what a program's first line asks for happens to the worker."""

    def evaluate(self, task, program, *, split, seed):
        match program.source.splitlines()[0]:
            case "# die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "# hang":
                time.sleep(600)
            case "# refuse":
                raise UsageError("this machine has no walls")
            case "# bug":
                raise KeyError("a bug of ours")
        return super().evaluate(task, program, split=split, seed=seed)
