"""One synthesis from its settings to its data set: what the Python API and the command line share.

    with begin(setup, budget, out) as synthesis:
        result = synthesis.go()

The folder is a run (kind `synth`: every reply, program and evaluation is stored) and, once it is finished, a data set. After a
kill, `resume` ends with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from coevo import __version__
from coevo.config import Config, parse
from coevo.errors import BudgetSpent, ConfigError, StoreError, UsageError
from coevo.evaluation.judges import open_judges
from coevo.evolution.session import Setup as Search
from coevo.models import open_models
from coevo.models.ensemble import Ensemble
from coevo.runs import Budget, Run, State, parse_budget, place
from coevo.sandbox.types import SandboxConfig
from coevo.tasks import list_tasks, task_digest
from coevo.tasks.sets import SHIPPED, load_tasks
from coevo.tasks.types import Task
from coevo.trajectories import staging
from coevo.trajectories.against import hold_out
from coevo.trajectories.answers import file_digest, read_answers
from coevo.trajectories.assembling import Assembler, Chosen
from coevo.trajectories.contamination import Held
from coevo.trajectories.folder import parquet, write_folder
from coevo.trajectories.sampling import Progress, Sampler
from coevo.trajectories.settings import SynthConfig
from coevo.trajectories.splits import family_of, split_of
from coevo.trajectories.staging import Source

KIND = "synth"
"""Kind of the runs that syntheses write."""


class AnswersFile(Config):
    """A file of answers, and the digest it had."""

    path: str
    sha256: str


class Setup(Config):
    """Everything that determines a synthesis but its budget. Holds absolute paths, so that it can be resumed from anywhere."""

    tasks: tuple[str, ...] = ()
    """What `load_tasks` takes."""
    digest: str = ""
    """Of all tasks: their judges and programs."""
    models: tuple[str, ...] = ()
    """Model specs that answer the tasks; none asks for no samples."""
    runs: tuple[str, ...] = ()
    """Recorded searches whose lineages are taken."""
    answers: tuple[AnswersFile, ...] = ()
    against: tuple[str, ...] = ()
    """Data sets, searches or tasks that must not be trained on."""
    strict: bool = False
    """Refuse what overlaps with them, instead of removing it."""
    settings: SynthConfig = SynthConfig()
    sandbox: SandboxConfig = SandboxConfig()
    pool: str = Field(default="local")
    """Where programs are judged: inline, local:N, ray:N@ADDRESS. Does not change results."""
    command: str = ""
    """As it was given, for the card."""

    @classmethod
    def of(cls, tasks: Sequence[str], *, answers: Sequence[str | Path] = (), **settings: Any) -> Setup:
        """For references as a user gives them. Checks everything that can be wrong before work begins."""
        loaded = load_tasks(tasks)
        digest = digest_of(loaded, [task_digest(task) for task in loaded])
        files = tuple(_checked(path, loaded) for path in answers)
        settings = {
            **settings,
            "runs": tuple(str(Path(run).expanduser().resolve()) for run in settings.get("runs", ())),
            "against": tuple(map(absolute, settings.get("against", ()))),
        }
        return cls.model_validate(
            {"tasks": tuple(map(absolute, tasks)), "digest": digest, "answers": files, **settings}
        )

    @classmethod
    def read(cls, run: Run) -> Setup:
        """Of a run that a synthesis made."""
        if run.kind != KIND:
            raise StoreError(f"run {run.path} is of kind {run.kind!r}, not a synthesis; nothing to go on with")
        return parse(cls, run.config, where=f"config of run {run.path}")

    def load(self) -> tuple[list[Task], list[str]]:
        """The tasks given and their digests, if they and the files of answers are still those that the run was made with."""
        tasks = load_tasks(self.tasks)
        digests = [task_digest(task) for task in tasks]
        if digest_of(tasks, digests) != self.digest:
            raise ConfigError(
                "the tasks have changed since this run was made (their config, judge or programs), so old and new answers would not "
                "compare. Restore them, or begin a new run"
            )
        for file in self.answers:
            if file_digest(file.path) != file.sha256:
                raise ConfigError(f"{file.path} has changed since this run was made; restore it, or begin a new run")
        return tasks, digests


@dataclass(frozen=True)
class SynthResult:
    """What a synthesis came to."""

    folder: Path
    rows: dict[str, int]
    """Per split."""
    counts: dict[str, dict[str, int]]
    """By stage: what was made, and what was dropped for which reason."""
    removed: list[dict[str, Any]] = field(default_factory=list)
    """What would have given away a held-out task."""
    stop: str = ""
    """Why it ended early, if it did; `coevo resume` goes on."""
    manifest: dict[str, Any] = field(default_factory=dict)
    """Of the data set; empty where none was written."""


@dataclass(frozen=True)
class Synthesis:
    """A run, opened for writing with all it needs."""

    run: Run
    setup: Setup
    tasks: list[Task]
    """The table of tasks: those given, then those of searches alone."""
    given: int
    """How many of them were given."""
    digests: list[str]
    sources: list[Source]
    models: Ensemble | None

    def go(self, progress: Progress | None = None) -> SynthResult:
        """Answer, arrange, write. A budget that ends early gives a smaller data set; an interrupt gives none yet."""
        report: Progress = progress or (lambda *_: None)
        settings = self.setup.settings
        given = self.tasks[: self.given]
        with open_judges(self.setup.pool, self.tasks, sandbox=self.setup.sandbox) as pool:
            sampler = Sampler(
                self.run,
                given,
                settings,
                pool=pool,
                models=self.models,
                answers=[Path(file.path) for file in self.setup.answers],
                progress=report,
            )
            if self.models is not None or self.setup.answers:
                sampler.go()
            counts = {"answers": dict(sampler.found.counts)}
            if sampler.plans.other_tasks:
                counts["answers"]["other_task"] = sampler.plans.other_tasks.total()
            if sampler.interrupted:
                self.run.mark(State.STOPPED, by=sampler.interrupted)
                return SynthResult(self.run.path, {}, counts, stop=f"stopped by {sampler.interrupted}")
            if sampler.budget_spent and not sampler.found.counts["answers"] and not self.sources:
                raise BudgetSpent(sampler.budget_spent)
            current = staging.stage(
                self.run, self.tasks, sampler.found, self.sources, settings, pool=pool, progress=report
            )
        counts |= {kind: dict(found) for kind, found in staging.counts(self.run, current).items() if found}
        result = self._write(current, counts, sampler.budget_spent, report)
        if sampler.budget_spent:
            self.run.mark(State.STOPPED, by=f"budget: {sampler.budget_spent}")
        else:
            self.run.mark(State.FINISHED, by="every answer arranged and written")
        return result

    def _write(
        self, current: staging.Pass, counts: dict[str, dict[str, int]], stop: str, progress: Progress
    ) -> SynthResult:
        settings = self.setup.settings
        splits = [split_of(task, settings.splits, seed=settings.seed) for task in self.tasks]
        held = Held(settings.contamination)
        for ref in self.setup.against:
            hold_out(held, ref)
        assembler = Assembler(self.run, self.tasks, self.digests, splits, self.sources, settings, current)
        chosen = assembler.choose(held, strict=self.setup.strict)
        total = sum(map(len, chosen.events.values()))
        if not total:
            raise UsageError(_nothing_left(counts, chosen))
        counts["writing"] = dict(chosen.dropped)
        manifest = write_folder(
            self.run.path,
            {
                split: partial(assembler.trajectories, split, events)
                for split, events in chosen.events.items()
                if events
            },
            facts=partial(self._facts, splits, counts, chosen, assembler),
            group_rows=settings.group_rows,
            shard_rows=settings.shard_rows,
            observer=lambda done: progress("writing", done, total),
        )
        rows = {split: found["rows"] for split, found in manifest["splits"].items()}
        return SynthResult(self.run.path, rows, manifest["counts"], chosen.removed, stop, manifest)

    def _facts(
        self, splits: Sequence[str], counts: dict[str, dict[str, int]], chosen: Chosen, assembler: Assembler
    ) -> dict[str, Any]:
        """For manifest and card; asked for when all rows are written."""
        settings = self.setup.settings
        if assembler.too_long:
            counts["writing"]["prompt_too_long"] = assembler.too_long
        rule = (
            f"Statements of train tasks that share {settings.contamination.overlap:.0%} of their runs of "
            f"{settings.contamination.ngram} words with a held-out task, and programs that are, or share as many runs of "
            f"{settings.contamination.program_ngram} tokens with, a program that solves one."
        )
        return {
            "coevo": __version__,
            "command": self.setup.command,
            "seed": settings.seed,
            "counts": counts,
            "sources": self._sources(),
            "headroom": (
                "best known fitness: by definition, of the reference or the best published score; or the best observed, "
                "whichever is higher"
            ),
            "contamination": {"rule": rule, "against": list(self.setup.against), "removed": chosen.removed},
            "settings": settings.model_dump(mode="json"),
            "tasks": [
                {"name": task.name, "family": family_of(task), "split": split, "digest": digest}
                for task, split, digest in zip(self.tasks, splits, self.digests, strict=True)
            ],
        }

    def _sources(self) -> list[dict[str, Any]]:
        names = self.models.names if self.models else ()
        found: list[dict[str, Any]] = [{"kind": "model", "name": name} for name in names]
        found += [{"kind": "answers", "file": Path(f.path).name, "sha256": f.sha256} for f in self.setup.answers]
        found += [
            {"kind": "search", "run": s.run.path.name, "task": self.tasks[s.task].name, "seed": s.setup.search.seed}
            for s in self.sources
        ]
        return found


def synthesize(
    tasks: Sequence[str] = (),
    *,
    models: Sequence[str] = (),
    runs: Sequence[str | Path] = (),
    answers: Sequence[str | Path] = (),
    out: str | Path,
    settings: SynthConfig | Mapping[str, Any] | None = None,
    budget: Budget | str = "",
    against: Sequence[str] = (),
    strict: bool = False,
    sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
    pool: str = "local",
    progress: Progress | None = None,
) -> SynthResult:
    """Make a data set of trajectories at `out`: answers of `models` (specs) and of files, executed and arranged, and the lineages
    of `runs`. Without a budget, tasks and samples bound the work.

    Raises `UsageError` for what cannot work or where no row is left, `BudgetSpent` if the budget does not buy one answer,
    `GateBlocked` with `strict` where something gives a held-out task away, `ModelError` when the models are down (the run at `out` can be
    resumed).
    """
    found = (
        settings if isinstance(settings, SynthConfig) else parse(SynthConfig, settings or {}, where="synth settings")
    )
    setup = Setup.of(
        tasks,
        answers=answers,
        models=tuple(models),
        runs=tuple(map(str, runs)),
        against=tuple(against),
        strict=strict,
        settings=found,
        sandbox=sandbox,
        pool=pool,
    )
    limits = parse_budget(budget) if isinstance(budget, str) else budget
    with begin(setup, limits, Path(out)) as synthesis:
        return synthesis.go(progress)


@contextmanager
def begin(setup: Setup, budget: Budget, out: Path) -> Iterator[Synthesis]:
    """A new run at `out`. Nothing is written when the tasks, the models or the searches cannot work."""
    parquet()
    if not (setup.models or setup.answers or setup.runs):
        raise UsageError("nothing to synthesize from: give a model (--model), answers (--answers) or a search (--from)")
    place.require_new(out)
    if (setup.models or setup.answers) and not setup.tasks:
        raise UsageError("a model or a file of answers needs tasks: coevo synth TASKS... --model SPEC")
    with _opened(setup, lambda: Run.create(out, kind=KIND, config=setup.model_dump(mode="json"), budget=budget)) as it:
        yield it


@contextmanager
def resume(path: Path, *, budget: Budget | None = None, pool: str | None = None) -> Iterator[Synthesis]:
    """An existing run, to go on; with `budget`, under new bounds (what was spent stays spent)."""
    parquet()
    with Run.open(path, write=False) as run:
        setup = Setup.read(run)
    place.require_free(path)
    if pool is not None:
        setup = setup.model_copy(update={"pool": pool})
    with _opened(setup, lambda: Run.open(path, write=True, budget=budget)) as it:
        yield it


@contextmanager
def _opened(setup: Setup, open_run: Callable[[], Run]) -> Iterator[Synthesis]:
    tasks, digests = setup.load()
    given = len(tasks)
    with ExitStack() as stack:
        sources = [_source(Path(path), tasks, digests, stack) for path in setup.runs]
        models = open_models(setup.models) if setup.models else None
        if models is not None:
            stack.callback(models.close)
        run = stack.enter_context(open_run())
        yield Synthesis(run, setup, tasks, given, digests, sources, models)


def _source(path: Path, tasks: list[Task], digests: list[str], stack: ExitStack) -> Source:
    """A search, with its task in the table."""
    run = stack.enter_context(Run.open(path, write=False))
    search = Search.read(run)
    task = search.load()
    known = {other.name: i for i, other in enumerate(tasks)}
    index = known.get(task.name)
    if index is None:
        tasks.append(task)
        digests.append(search.task.digest)
        index = len(tasks) - 1
    elif digests[index] != search.task.digest:
        raise UsageError(
            f"--from {path}: its task {task.name!r} is not the task of that name given elsewhere ({tasks[index].folder}); "
            "make two data sets, or rename one"
        )
    return Source(run, search, index)


def _checked(path: str | Path, tasks: Sequence[Task]) -> AnswersFile:
    """Read a file of answers through, so that a bad row is told before any work."""
    digest = file_digest(path)
    names = {task.name for task in tasks}
    about = sum(given.task in names for given in read_answers(path))
    if not about:
        raise UsageError(f"{path}: no row is about one of the {len(names):,} tasks given; 'task' is a task's name")
    return AnswersFile(path=str(Path(path).resolve()), sha256=digest)


def _nothing_left(counts: dict[str, dict[str, int]], chosen: Chosen) -> str:
    said = [f"{name.replace('_', ' ')} {number}" for stage in counts.values() for name, number in stage.items()]
    said += [f"{name} {number}" for name, number in chosen.dropped.items()]
    return (
        f"no row is left to write ({', '.join(said)}). Loosen what drops most: diversity.measure=none, arrange.earlier_min=0, "
        "mix.right=null, contamination.overlap; or ask for more samples"
    )


def digest_of(tasks: Sequence[Task], digests: Sequence[str]) -> str:
    """SHA-256 over the names and digests of tasks."""
    text = "\n".join(f"{task.name} {digest}" for task, digest in zip(tasks, digests, strict=True))
    return hashlib.sha256(text.encode()).hexdigest()


def absolute(ref: str) -> str:
    """A reference that means the same from any folder. Shipped names win over folders, as in `load_task`."""
    head, colon, rest = str(ref).partition(":")
    path = Path(head).expanduser()
    if str(ref).startswith(SHIPPED) or head in list_tasks() or not path.exists():
        return str(ref)
    return f"{path.resolve()}{colon}{rest}"
