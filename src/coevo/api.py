"""The Python API: what `import coevo` offers, and what the command line itself is built on.

import coevo
task = coevo.load_task("circle_packing:n=26")
evaluation = coevo.evaluate(task, "mine.py", split="public")
result = coevo.evolve(task, models=["openai:gpt-5-mini"], budget="evaluations=200,usd=0.5", out="runs/first")
data = coevo.synthesize(runs=["runs/first"], out="runs/data")
trained = coevo.train("recipe.yaml", out="runs/policy")
print(coevo.diagnose("runs/policy").fired, coevo.compare("runs/before", "runs/policy").verdict)
lab = coevo.run_lab("lab.yaml", out="runs/lab")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.config import parse, read_yaml
from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation
from coevo.evolution.compare import Comparison
from coevo.evolution.result import Observer, SearchResult
from coevo.evolution.settings import SearchConfig, StrategyName
from coevo.programs import Program
from coevo.runs import Budget, parse_budget
from coevo.sandbox.types import SandboxConfig
from coevo.tasks import load_task
from coevo.tasks.types import Split, Task
from coevo.trajectories.synth import synthesize

if TYPE_CHECKING:
    from coevo.bench.study import Outcome
    from coevo.diagnostics.types import Diagnosis
    from coevo.gate.comparing import Paired
    from coevo.lab.driver import Outcome as LabOutcome
    from coevo.lab.settings import LabConfig
    from coevo.lab.types import Agent
    from coevo.training.audit import AuditReport
    from coevo.training.result import Observer as TrainObserver
    from coevo.training.result import TrainResult
    from coevo.training.settings import Recipe

DEFAULT_BUDGET = "evaluations=200"

__all__ = [
    "audit_reward",
    "compare",
    "compare_strategies",
    "diagnose",
    "evaluate",
    "evolve",
    "load_task",
    "pretrain",
    "replay",
    "resume",
    "run_lab",
    "run_study",
    "synthesize",
    "train",
]


def evaluate(
    task: Task | str | Path,
    program: Program | str | Path,
    *,
    split: Split,
    seed: int = 0,
    sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
) -> Evaluation:
    """Judge one program (a `Program`, or the path of a file or folder) on one split of a task, in the sandbox.

    Never raises for what the program does. Raises `TaskError` or `UsageError` for a task or a path that is not one, and
    `WallsError` where this machine cannot raise the walls that `sandbox` demands. To judge many programs, keep one
    `coevo.evaluation.judge.Judge` open.
    """
    found = task if isinstance(task, Task) else load_task(task)
    source = program if isinstance(program, Program) else Program.read(program)
    with Judge(found, sandbox=sandbox) as judge:
        return judge.evaluate(source, split=split, seed=seed)


def evolve(
    task: Task | str | Path,
    *,
    models: Sequence[str] = (),
    budget: Budget | str = DEFAULT_BUDGET,
    out: str | Path,
    config: SearchConfig | Mapping[str, Any] | None = None,
    sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
    pool: str = "local",
    observer: Observer | None = None,
) -> SearchResult:
    """Evolve a task's start program in a new run at `out`, until the budget, a target or an interrupt ends it.

    `models` are specs (docs/models.md); without any, free operators search alone. `config` holds the search's settings,
    its seed among them. `observer` is called after every committed step. The result's `verified` compares best and start on hidden
    tests. Raises `BudgetSpent` if the budget does not buy one evaluation, `UsageError` for settings that cannot work,
    `StoreError` if `out` cannot be written.
    """
    from coevo.evolution.session import Setup, begin

    found = task if isinstance(task, Task) else load_task(task)
    search = config if isinstance(config, SearchConfig) else parse(SearchConfig, config or {}, where="search config")
    setup = Setup.of(found, models=tuple(models), search=search, sandbox=sandbox, pool=pool)
    limits = parse_budget(budget) if isinstance(budget, str) else budget
    with begin(setup, limits, Path(out), task=found) as session:
        return session.go(observer)


def resume(
    run: str | Path, *, budget: Budget | str | None = None, pool: str | None = None, observer: Observer | None = None
) -> SearchResult:
    """Go on with a run where it stopped, under new bounds if `budget` is given (what was spent stays spent)."""
    from coevo.evolution.session import resume as opened

    limits = parse_budget(budget) if isinstance(budget, str) else budget
    with opened(Path(run), budget=limits, pool=pool) as session:
        return session.go(observer)


def replay(
    run: str | Path, out: str | Path, *, pool: str | None = None, observer: Observer | None = None
) -> tuple[SearchResult, bool]:
    """Search again in a new run at `out` with the replies that `run` recorded, without its models.

    Returns the result and whether the steps of both runs have the same digest: with a task that is not timed they must.
    """
    from coevo.evolution.session import STEPS, replaying

    with replaying(Path(run), Path(out), pool=pool) as (session, digest):
        result = session.go(observer)
        return result, session.run.digest(kinds=STEPS) == digest


def compare_strategies(
    task: Task | str | Path,
    *,
    strategies: Sequence[StrategyName] = ("evolve", "independent", "sequential", "best_of_n", "hill_climb"),
    seeds: Sequence[int] = (0, 1, 2),
    models: Sequence[str] = (),
    budget: Budget | str = DEFAULT_BUDGET,
    out: str | Path,
    config: SearchConfig | Mapping[str, Any] | None = None,
    sandbox: SandboxConfig = SandboxConfig(),  # noqa: B008 - frozen
    pool: str = "local",
) -> Comparison:
    """Strategies side by side at equal budget, medians over seeds of hidden results, with the task's no-LLM baseline.

    Each strategy and seed is a run of its own under `out`; calling again goes on where an interrupted comparison stopped.
    """
    from coevo.evolution.session import Setup, comparing

    found = task if isinstance(task, Task) else load_task(task)
    search = config if isinstance(config, SearchConfig) else parse(SearchConfig, config or {}, where="search config")
    setup = Setup.of(found, models=tuple(models), search=search, sandbox=sandbox, pool=pool)
    limits = parse_budget(budget) if isinstance(budget, str) else budget
    return comparing(setup, found, strategies, seeds, limits, Path(out))


def train(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    out: str | Path,
    budget: Budget | str = "",
    observer: TrainObserver | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> TrainResult:
    """Train a policy by a recipe (an object, its data, or a YAML file) in a new run at `out`, until steps or budget end it.

    A base `mini` is pre-trained at its first use. The result names the checkpoints, which are Hugging Face folders:
    `coevo.evolve(task, models=[f"local:{result.last}"])` searches with one. Raises `ConfigError` for what cannot work, `GateBlocked` where
    the reward pays planted cheats, `InfrastructureError` when the machine cannot measure. A run that was stopped goes on by `coevo resume`.
    """
    from coevo.mini.base import base_folder
    from coevo.training.session import train as trained

    found = _recipe(recipe)
    limits = parse_budget(budget) if isinstance(budget, str) else budget
    weights = base_folder(found.base, notify=notify) if found.trainer != "toy" else None
    return trained(found, out, budget=limits, weights=weights, observer=observer, notify=notify)


def audit_reward(
    recipe: Recipe | Mapping[str, Any] | str | Path, *, tasks: Sequence[str | Task] | None = None
) -> AuditReport:
    """What planted cheats and honest answers would earn under a recipe's reward, by the real judge on shipped (or your) tasks."""
    from coevo.training.audit import audit

    return audit(_recipe(recipe), tasks) if tasks is not None else audit(_recipe(recipe))


def pretrain(size: str = "mini", *, seed: int = 0, notify: Callable[[str], None] = lambda text: None) -> Path:
    """The folder of a language model trained here from nothing (`mini`, or `tiny`); made at the first call, then found."""
    from coevo.mini.pretrain import mini_folder

    return mini_folder(size, seed=seed, notify=notify)


def run_study(
    study: str | Path,
    *,
    out: str | Path,
    minutes: float | None = None,
    quick: bool = False,
    model: str | None = None,
    seeds: int | None = None,
    arms: Sequence[str] | None = None,
    sets: Sequence[str] = (),
    notify: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Compare arms at equal budgets on held-out tasks; what `coevo bench` does (docs/bench.md). Called again, it goes on."""
    from coevo.bench.studies import study_of
    from coevo.bench.study import run_study as run

    names = list(arms) if arms is not None else None
    config = study_of(
        str(study), quick=quick, model=model, data=None, seeds=seeds, arms=names, sets=list(sets), notify=notify
    )
    return run(config, Path(out), minutes=minutes, notify=notify)


def diagnose(source: str | Path, baseline: str | Path | None = None) -> Diagnosis:
    """What rollouts of one run say: is it learning, is it real, what is wrong, what cannot be told. Any source that `coevo diagnose` reads:
    a run folder, or JSONL or Parquet of coevo, TRL, verl or ROLL."""
    from coevo.diagnostics.diagnose import diagnose as diagnosed
    from coevo.evidence.opening import open_evidence

    return diagnosed(open_evidence(source), open_evidence(baseline) if baseline is not None else None)


def compare(a: str | Path, b: str | Path, **options: Any) -> Paired:
    """Is B better than A, paired by task: verdict, difference, interval, what could be found, what would settle it. Sources as for `diagnose`, or
    SOURCE:BRANCH; options as `coevo.gate.comparing.compare` has them (metric="truth", split="", alpha=0.05, ...)."""
    from coevo.gate.comparing import compare_evidence

    return compare_evidence(a, b, **options)


def run_lab(
    lab: LabConfig | Mapping[str, Any] | str | Path,
    *,
    out: str | Path,
    agent: Agent | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> LabOutcome:
    """Run a lab (settings as an object, data or a YAML file) at `out` until it is finished or waits for a person; called again, it goes on.

    `agent`: one of your own instead of the one that the settings name (`coevo.lab.types.Agent`). The report is out/artifacts/report.md.
    """
    from coevo.lab.driver import new_lab
    from coevo.lab.driver import run_lab as run
    from coevo.lab.settings import LabConfig

    if not (Path(out) / "run.db").exists():
        data = lab if isinstance(lab, LabConfig | Mapping) else read_yaml(Path(lab))
        config = data if isinstance(data, LabConfig) else parse(LabConfig, data, where="lab settings")
        new_lab(config, out, notify=notify)
    return run(out, agent=agent, notify=notify)


def _recipe(recipe: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
    from coevo.training.settings import Recipe

    if isinstance(recipe, Recipe):
        return recipe
    data = recipe if isinstance(recipe, Mapping) else read_yaml(Path(recipe))
    return parse(Recipe, data, where="recipe" if isinstance(recipe, Mapping) else str(recipe))
