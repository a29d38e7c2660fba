"""What the stages of a lab work with: the run, its ledger as it stands, and the things that are opened once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from coevo.diagnostics.types import Diagnostic
from coevo.evidence.types import Frame
from coevo.gate.settings import GateConfig
from coevo.gate.types import Ask, Judgement, Seen
from coevo.lab.branches import Branches
from coevo.lab.harness import Harness
from coevo.lab.ledger import KINDS, Ledger, fold
from coevo.lab.measuring import Measurer
from coevo.lab.settings import LabConfig
from coevo.lab.types import Agent
from coevo.runs import Run
from coevo.runs.types import Event, Ticket

Gate = Callable[[GateConfig, Seen], Ask | Judgement]


class Fact(NamedTuple):
    """An event to be."""

    kind: str
    payload: Mapping[str, Any]


@dataclass
class Desk:
    """One sitting at a lab."""

    path: Path
    run: Run
    config: LabConfig
    ledger: Ledger
    harness: Harness
    branches: Branches
    measurer: Measurer
    agent: Agent
    gate: Gate
    notify: Callable[[str], None]
    stack: ExitStack
    """Closed when the sitting ends."""
    frames: dict[str, Frame] = field(default_factory=dict)
    """Training rollouts by branch, as far as they were read at its present step."""
    looked: dict[tuple[str, str, int], tuple[Frame, Frame]] = field(default_factory=dict)
    """(child, split, number) -> rows of both arms."""

    due: list[tuple[Ticket, Mapping[str, float]]] = field(default_factory=list)
    """What was paid for and not yet booked: it is booked with the event it was paid for, so that a kill in between books nothing twice."""

    def commit(
        self, *facts: Fact, rows: Sequence[Mapping[str, Any]] = (), completion: tuple[str, Any] | None = None
    ) -> None:
        """Append events (and the rows and the reply that belong to them) in one transaction; the ledger follows."""
        step = self.ledger.round.number if self.ledger.round else 0
        events = []
        with self.run.transaction():
            if completion is not None:
                self.run.put_completion(*completion)
            for kind, payload in facts:
                at = payload.get("round", step)
                events.append(Event(self.run.append(kind, payload, step=at), 0.0, at, kind, dict(payload)))
            if rows:
                self.run.put_rollouts(rows, step=step)
            for ticket, paid in self.due:
                self.run.ledger.settle(ticket, **paid)
        self.due.clear()
        self.ledger = fold((event for event in events if event.kind in KINDS), self.ledger)

    def frame(self, name: str) -> Frame:
        """A branch's training rollouts; of an average, those of the branch it is mostly made of."""
        proposal = self.ledger.branches[name].proposal
        if proposal is not None and "a" in proposal.change.weights:
            weights = proposal.change.weights
            return self.frame(weights["b"] if float(weights.get("share", "0.5")) > 0.5 else weights["a"])
        if name not in self.frames:
            from coevo.evidence.opening import open_evidence
            from coevo.evidence.rows import frame_of

            path = self.branches.path(name)
            with Run.open(path, write=False) as run:
                empty = not run.counts()["rollouts"]
            found = frame_of([]) if empty else open_evidence(path, workers=1)
            self.frames[name] = replace(found, source=self.ledger.branches[name].run)
        return self.frames[name]

    def forget(self, name: str) -> None:
        """A branch has trained on."""
        self.frames.pop(name, None)

    @cached_property
    def scripts(self) -> Any:
        """Runs skills' scripts."""
        from coevo.skills.running import Scripts

        return self.stack.enter_context(Scripts())

    @cached_property
    def bench(self) -> Any:
        """Runs agents' diagnostics in the sandbox."""
        from coevo.backtest.sandboxed import Bench

        return self.stack.enter_context(Bench())

    def diagnostics(self) -> dict[str, Diagnostic]:
        """The shipped ones, and those that this lab has admitted, with their levels."""
        from coevo.backtest.proposed import diagnostic_of
        from coevo.diagnostics.registry import shipped
        from coevo.diagnostics.types import Levels
        from coevo.lab.proposals import diagnostic_proposal_of

        found = dict(shipped())
        for admission in self.ledger.admissions:
            if admission["admitted"]:
                made = diagnostic_of(diagnostic_proposal_of(admission["proposal"]), bench=self.bench)
                found[made.id] = replace(made, levels=Levels(**admission["levels"]))
        return found

    def remaining(self) -> dict[str, float | None]:
        """What the lab may still spend; None is unlimited."""
        left: dict[str, float | None] = {
            name: self.run.ledger.remaining()[name] for name in ("tokens", "usd", "minutes")
        }
        budget = self.config.budget
        left["steps"] = None if budget.steps is None else max(0, budget.steps - self.ledger.steps_spent)
        left["rounds"] = max(0, budget.rounds - self.ledger.rounds)
        return left
