"""Judging programs of many tasks in one worker: the state of a pool that trains, synthesizes or compares over a set of tasks.

    pool = open_pool("local", partial(Judges, {task.name: task_ref(task) for task in tasks}))
    evaluation = pool.submit(measure, "two_sum", program, "public", 1, deadline_s=deadline_s(task)).result()

All tasks of a preload share one sandbox; a judge is made when its task is first asked for, and the ones used last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import TracebackType

from coevo.errors import TaskError
from coevo.evaluation.efficiency import EfficiencyConfig
from coevo.evaluation.judge import Judge, opened
from coevo.evaluation.pool import Pool, open_pool
from coevo.evaluation.trusted import forget_judge_files
from coevo.evaluation.types import Evaluation
from coevo.programs import Program
from coevo.sandbox.types import Preload, Sandbox, SandboxConfig
from coevo.tasks.loader import load_task
from coevo.tasks.sets import load_tasks, task_ref
from coevo.tasks.types import Split, Task

KEPT = 1024
"""Judges held by one worker at most."""
KEPT_BYTES = 256 << 20
"""And no more of them than whose tests take so many bytes together, about. At least one is always held."""

_JUDGE_BYTES = 32 << 10
"""What a judge takes without its tests."""

_PATIENCE_S, _WALLS = 120.0, 40
"""An evaluation may take this many seconds plus so many wall limits of the task before its worker counts as hung."""


class Judges:
    """Judges by task name, in one process; close it, or use it in a `with`. Raises `TaskError` for a name it was not given.

    `tasks` maps names to loaded tasks or to what `load_task` takes, which is then loaded at its first use; a plain sequence
    of either is named by loading it. A setup for a pool's workers is a `functools.partial` of this class.
    """

    def __init__(
        self,
        tasks: Mapping[str, str | Task] | Sequence[str | Task],
        *,
        sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
        efficiency: EfficiencyConfig = EfficiencyConfig(),  # noqa: B008 - frozen
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._tasks = dict(tasks) if isinstance(tasks, Mapping) else _named(tasks)
        self._config, self._efficiency = sandbox, efficiency
        self._kept, self._kept_bytes = max(1, kept), kept_bytes
        self._sandboxes: dict[Preload, Sandbox] = {}
        self._judges: OrderedDict[str, tuple[Judge, int]] = OrderedDict()
        self._bytes = 0

    def evaluate(self, task: str, program: Program, *, split: Split, seed: int) -> Evaluation:
        """As `Judge.evaluate`, of the task of that name."""
        judge = self.judge(task)
        evaluation = judge.evaluate(program, split=split, seed=seed)
        self._hold(task, judge)
        return evaluation

    def judge(self, task: str) -> Judge:
        """The judge of a task, which stays this object's own: it may be let go at the next call."""
        held = self._judges.get(task)
        judge = held[0] if held is not None else self._made(task)
        self._hold(task, judge)
        return judge

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the tasks whose judges are in memory, the one used last at the end."""
        return tuple(self._judges)

    def close(self) -> None:
        """End the sandboxes. Can be used again, which starts new ones."""
        self._judges.clear()
        self._bytes = 0
        sandboxes, self._sandboxes = self._sandboxes, {}
        for sandbox in sandboxes.values():
            sandbox.close()

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _hold(self, name: str, judge: Judge) -> None:
        """Keep a judge as the one used last, and forget those used longest ago. They own nothing, so there is nothing to close."""
        size = _JUDGE_BYTES + judge.held_bytes
        self._bytes += size - self._judges.get(name, (judge, 0))[1]
        self._judges[name] = judge, size
        self._judges.move_to_end(name)
        while len(self._judges) > 1 and (len(self._judges) > self._kept or self._bytes > self._kept_bytes):
            _, (gone, freed) = self._judges.popitem(last=False)
            self._bytes -= freed
            if all(held.task.folder != gone.task.folder for held, _ in self._judges.values()):
                forget_judge_files(gone.task.folder)

    def _made(self, name: str) -> Judge:
        if name not in self._tasks:
            near = get_close_matches(name, self._tasks, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise TaskError(f"task {name!r} is not among the {len(self._tasks):,} tasks judged here.{hint}")
        given = self._tasks[name]
        task = load_task(given, lazy=True) if isinstance(given, str) else given
        if task.name != name:
            raise TaskError(f"{given} was task {name!r} and is now {task.name!r}; restore it, or begin anew")
        return Judge(task, sandbox=self._sandbox(task.config.preload), efficiency=self._efficiency)

    def _sandbox(self, preload: Preload) -> Sandbox:
        if preload not in self._sandboxes:
            self._sandboxes[preload] = opened(self._config, preload)
        return self._sandboxes[preload]


def measure(judges: Judges, task: str, program: Program, split: Split, seed: int) -> Evaluation:
    """A pool's job: judge a program of the task of that name."""
    return judges.evaluate(task, program, split=split, seed=seed)


def deadline_s(task: Task) -> float:
    """Wall seconds after which a worker that judges this task counts as hung."""
    return _PATIENCE_S + _WALLS * task.config.limits.wall


def open_judges(
    spec: str,
    tasks: Iterable[Task],
    *,
    sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
    efficiency: EfficiencyConfig = EfficiencyConfig(),  # noqa: B008 - frozen
) -> Pool:
    """A pool (`inline`, `local:4`, `ray:8@ADDRESS`) whose workers judge all of these tasks. Only references travel to them."""
    tasks = list(tasks)
    setup = partial(Judges, {task.name: task_ref(task) for task in tasks}, sandbox=sandbox, efficiency=efficiency)
    return open_pool(spec, setup, deadline_s=max((deadline_s(task) for task in tasks), default=None))


def _named(tasks: Sequence[str | Task]) -> dict[str, str | Task]:
    named: dict[str, str | Task] = {}
    loaded = [found for task in tasks for found in ([task] if isinstance(task, Task) else load_tasks([task]))]
    for task in loaded:
        if task.name in named:
            raise TaskError(f"two tasks are called {task.name!r}; give each once")
        named[task.name] = task
    return named


__all__ = ["Judges", "deadline_s", "measure", "open_judges"]
