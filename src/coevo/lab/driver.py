"""A lab from its settings to its report: opens what it needs, and carries out one action after the other.

Each action ends with its event, in one transaction; whatever a kill cut short is done again, from where its parts left off (a training run goes
on from its own steps, a commit comes out the same). So a lab that was killed anywhere ends with the same ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from coevo.errors import BudgetSpent, GateBlocked, StoreError, UsageError
from coevo.evolution.interrupts import Interrupts
from coevo.gate.types import Calibration
from coevo.lab import closing, designing, judging, launching, rounds
from coevo.lab.branches import Branches
from coevo.lab.checking import absolute_agent, require_sense
from coevo.lab.desk import Desk, Fact, Gate
from coevo.lab.harness import Harness, require_git
from coevo.lab.interventions import lean, resolved, sealed
from coevo.lab.ledger import VERSION, Ledger
from coevo.lab.measuring import open_measurer
from coevo.lab.reading import KIND, budget_of, config_of, ledger_of, read_lab
from coevo.lab.rounds import Action, next_action
from coevo.lab.settings import LabConfig
from coevo.lab.types import Agent, BranchState
from coevo.runs import Run
from coevo.runs.types import State
from coevo.streams import stream_seed
from coevo.training.session import with_absolute_paths

_SEALS = {
    "judge": "judge (files of the tasks in tasks.gate, tasks.holdout or tasks.report; of trainer toy its world)",
    "tasks": "set of toy tasks",
    "splits": "setting `tasks`",
    "gate": "setting `gate`",
    "budget": "setting `budget`",
}
"""Sealed names, for a person."""

Notify = Callable[[str], None]


class Ended(StrEnum):
    """Why a sitting ended."""

    FINISHED = "finished"
    WAITING = "waiting"
    """For a person's approval."""
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    """As many actions as were asked for have been carried out."""


@dataclass(frozen=True)
class Outcome:
    """How one sitting at a lab ended."""

    ended: Ended
    message: str
    ledger: Ledger
    path: Path

    @property
    def exit_code(self) -> int:
        """For the command line: 0 when it finished (or was paused), 4 while it waits for approval, 3 when the budget bought no round,
        1 when interrupted."""
        if self.ended is Ended.FINISHED and self.ledger.exhausted and not self.ledger.rounds:
            return 3
        return {Ended.FINISHED: 0, Ended.PAUSED: 0, Ended.WAITING: 4, Ended.INTERRUPTED: 1}[self.ended]


def new_lab(config: LabConfig, path: str | Path, *, notify: Notify = lambda line: None) -> None:
    """Make a lab's folder: its run, and the first harness. Nothing is trained yet, and nothing is written where it cannot work.

    Raises `ConfigError` for settings that cannot work, `GateBlocked` where splits overlap, `UsageError` without git.
    """
    path = Path(path)
    require_git()
    config = absolute_config(config)
    recipe = lean(resolved(config.recipe.model_dump(mode="json"), config))
    with open_measurer(config, notify=notify) as measurer:
        judge = measurer.judge()
        require_sense(config, measurer, notify=notify)
    with Run.create(path, kind=KIND, config=config.model_dump(mode="json"), budget=budget_of(config)) as run:
        commit = Harness(path).begin(recipe)
        run.append("lab", {"version": VERSION, "commit": commit, "sealed": sealed(run.config, judge)})


def absolute_config(config: LabConfig) -> LabConfig:
    """Folders named so that they mean the same from anywhere."""
    from coevo.training.session import absolute

    tasks = config.tasks.model_copy(
        update={name: tuple(map(absolute, getattr(config.tasks, name))) for name in type(config.tasks).model_fields}
    )
    skills = tuple(absolute(name) if name else name for name in config.skills)
    recipe, agent = with_absolute_paths(config.recipe), absolute_agent(config.agent)
    return config.model_copy(update={"tasks": tasks, "skills": skills, "recipe": recipe, "agent": agent})


def run_lab(
    path: str | Path,
    *,
    agent: Agent | None = None,
    gate: Gate | None = None,
    actions: int | None = None,
    notify: Notify = lambda line: None,
) -> Outcome:
    """Go on with a lab until it is finished, waits for a person, is interrupted, or has carried out `actions` actions.

    `agent` and `gate` take the place of those that the settings name (a lab of one's own design; tests). Raises `InfrastructureError` where
    an agent or an engine cannot be reached: nothing of the action in flight is stored, and the lab goes on from there.
    """
    path = Path(path)
    budget = budget_of(read_lab(path)[0])
    with Run.open(path, write=True, budget=budget) as run, ExitStack() as stack:
        desk = stack.enter_context(_sitting(run, stack, agent, gate, notify))
        _require_begun(desk)
        interrupts = stack.enter_context(Interrupts(path))
        done = 0
        while True:
            action = next_action(desk.ledger, desk.config)
            if isinstance(action, rounds.Finish):
                _require_report(desk)
                run.mark(State.FINISHED, by=action.why)
                return Outcome(Ended.FINISHED, action.why, desk.ledger, path)
            if isinstance(action, rounds.Wait):
                why = f"approval of {action.stage}: `coevo lab approve {path}`, or with --reject"
                run.mark(State.STOPPED, by=f"waiting for {why}")
                return Outcome(Ended.WAITING, why, desk.ledger, path)
            if interrupts.requested():
                run.mark(State.STOPPED, by=f"asked to stop by {interrupts.cause}")
                return Outcome(Ended.INTERRUPTED, f"asked to stop by {interrupts.cause}", desk.ledger, path)
            if actions is not None and done >= actions:
                run.mark(State.STOPPED, by=f"{actions} actions were carried out")
                return Outcome(Ended.PAUSED, f"{actions} actions were carried out", desk.ledger, path)
            try:
                perform(desk, action)
            except BudgetSpent as e:
                desk.commit(Fact("exhausted", {"why": f"the budget is spent: {e}"}))
            except launching.Stopped as e:
                run.mark(State.STOPPED, by=str(e))
                return Outcome(Ended.INTERRUPTED, str(e), desk.ledger, path)
            done += 1


def calibrate_lab(path: str | Path, *, notify: Notify = lambda line: None) -> Calibration:
    """Bring a lab as far as its first calibration, and no further. Raises `UsageError` where its settings have none."""
    while True:
        config, ledger = read_lab(path)
        if ledger.calibration is not None:
            return ledger.calibration
        action = next_action(ledger, config)
        if not config.calibration or isinstance(action, rounds.OpenRound | rounds.Report | rounds.Finish):
            raise UsageError(f"lab {path} makes no calibration (calibration = {config.calibration})")
        outcome = run_lab(path, actions=1, notify=notify)
        if outcome.ended is Ended.INTERRUPTED:
            raise UsageError(f"interrupted: {outcome.message}; the same command goes on")


def approve(path: str | Path, *, yes: bool = True) -> str:
    """Answer what a lab waits for; the stage. Raises `UsageError` where it waits for nothing."""
    with Run.open(path, write=True) as run:
        ledger = ledger_of(run)
        config_of(run, ledger)
        stage = ledger.waiting_for()
        if not stage or ledger.round is None:
            raise UsageError(f"lab {path} waits for no approval; `coevo lab status {path}` says what it does next")
        number = ledger.round.number
        run.append("answered", {"round": number, "stage": stage, "yes": yes}, step=number)
        run.mark(State.STOPPED, by=f"{stage} was {'approved' if yes else 'rejected'}")
    return stage


def perform(desk: Desk, action: Action) -> None:
    """Carry out one action, and append its event."""
    match action:
        case rounds.Launch():
            launching.launch(desk, action)
        case rounds.Train():
            launching.train(desk, action)
        case rounds.Prune():
            launching.prune(desk, action)
        case rounds.Diagnose():
            judging.diagnose_branch(desk, action.branch)
        case rounds.Calibrate():
            judging.calibrate_gate(desk, action)
        case rounds.OpenRound():
            desk.commit(Fact("round", {"round": action.number, "parent": action.parent}))
        case rounds.OpenGap():
            desk.notify(f"a gap: {action.why}")
            desk.commit(Fact("gap", {"why": action.why}))
        case rounds.ProposeDiagnostic():
            designing.propose_diagnostic(desk, action.why)
        case rounds.AdmitDiagnostic():
            designing.admit_diagnostic(desk)
        case rounds.Propose():
            designing.propose(desk, action)
        case rounds.Backtest():
            designing.backtest(desk, action)
        case rounds.AskApproval():
            desk.commit(Fact("asked", {"stage": action.stage}))
        case rounds.Judge():
            judging.judge_branch(desk, action)
        case rounds.EndRound():
            closing.end_round(desk, action)
        case rounds.RecordSkills():
            closing.record_skills(desk)
        case rounds.Escalate():
            closing.escalate(desk, action)
        case rounds.Report():
            closing.report(desk, action)
        case rounds.Wait() | rounds.Finish():
            raise AssertionError(f"{action} is the driver's own")


@contextmanager
def _sitting(run: Run, stack: ExitStack, agent: Agent | None, gate: Gate | None, notify: Notify) -> Iterator[Desk]:
    ledger = ledger_of(run)
    config = config_of(run, ledger)
    harness = Harness(run.path)
    harness.unlock()
    measurer = stack.enter_context(open_measurer(config, notify=notify))
    if agent is None:
        from coevo.lab.agents.opening import open_agent

        hidden = [run.path, *(Path(task) for task in (*config.tasks.gate, *config.tasks.holdout, *config.tasks.report))]
        agent = open_agent(
            config.agent, seed=stream_seed(config.seed, "agent") % 2**62, blind=config.placebo, hidden=hidden
        )
    if gate is None:
        from coevo.gate.deciding import next_step as gate
    yield Desk(
        path=run.path,
        run=run,
        config=config,
        ledger=ledger,
        harness=harness,
        branches=Branches(run.path, config, harness, notify=lambda line: None),
        measurer=measurer,
        agent=agent,
        gate=gate,
        notify=notify,
        stack=stack,
    )


def _require_begun(desk: Desk) -> None:
    """A kill may have come between the run and its first event; and a judge that has changed since is another lab."""
    if not desk.ledger.harness:
        recipe = lean(resolved(desk.config.recipe.model_dump(mode="json"), desk.config))
        commit = desk.harness.begin(recipe)
        found = {"version": VERSION, "commit": commit, "sealed": sealed(desk.run.config, desk.measurer.judge())}
        desk.commit(Fact("lab", found))
    elif not desk.ledger.reported:
        _require_same_judge(desk)
        _require_branches(desk)


def _require_report(desk: Desk) -> None:
    """A kill may have come between the last event and its report, or somebody deleted it."""
    from coevo.lab.report import FILE, write_report

    if desk.ledger.reported and not (desk.run.artifacts / f"{FILE}.md").exists():
        write_report(desk.run, desk.config)


def _require_branches(desk: Desk) -> None:
    """Raise `StoreError` where a branch that has trained is gone: its weights and rollouts are nowhere else."""
    ended = (b.name for b in desk.ledger.branches.values() if b.state in (BranchState.TRAINED, BranchState.PRUNED))
    if gone := [name for name in ended if not (desk.branches.path(name) / "run.db").is_file()]:
        raise StoreError(
            f"lab {desk.path} lacks what its branches {', '.join(gone)} trained (say {desk.branches.path(gone[0])}/run.db), and later rounds are "
            "held against them. Put the folders back from a copy, or make a new lab; `coevo lab status` still reads this one"
        )


def _require_same_judge(desk: Desk) -> None:
    """Raise `GateBlocked` where what the lab sealed when it was made is not what is there now."""
    sealed_then, now = desk.ledger.sealed, sealed(desk.run.config, desk.measurer.judge())
    changed = sorted(name for name in sealed_then.keys() | now.keys() if sealed_then.get(name) != now.get(name))
    if changed:
        raise GateBlocked(
            f"lab {desk.path} was made with another {' and another '.join(_SEALS.get(name, name) for name in changed)}; verdicts by two judges "
            "cannot be compared. Undo the change (or go on with the coevo that made the lab), or make a new lab"
        )
