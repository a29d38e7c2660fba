"""Steps between their decision and their commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.records import Candidate, Decision, Summary
from coevo.evolution.state import State
from coevo.evolution.worker import Made
from coevo.models.types import Completion, Request
from coevo.programs import Program
from coevo.runs import Ticket


@dataclass(eq=False)
class Measuring:
    """One evaluation, shared by all steps in flight that made the same program."""

    program: Program
    owner: int
    """The lowest step that made it: its text is the one judged and kept."""
    waiting: list[Flight] = field(default_factory=list)
    evaluation: Evaluation | None = None
    replace: bool = False
    """The run holds another text of this program, put there by a later step that was quicker."""

    def join(self, flight: Flight) -> None:
        """Let a step wait for this evaluation."""
        self.owner = min(self.owner, flight.step)
        self.waiting.append(flight)
        flight.measuring = self


@dataclass(eq=False)
class Flight:
    """One step on its way."""

    decision: Decision
    asked: Mapping[str, float]
    ticket: Ticket
    request: Request | None = None
    completion: Completion | None = None
    made: Made | None = None
    measuring: Measuring | None = None
    earlier: Summary | None = None
    """What an earlier committed step had measured of the same program."""
    trouble: str = ""
    """The machine's fault, where there is no proposal and no reason for it."""

    @property
    def step(self) -> int:
        return self.decision.step

    @property
    def done(self) -> bool:
        """Whether it can commit, once all steps before it have."""
        if self.trouble or self.earlier is not None:
            return True
        if self.measuring is not None:
            return self.measuring.evaluation is not None
        return self.made is not None and self.made.proposal.program is None

    def candidate(self, state: State) -> Candidate:
        """The record to commit. Whether the program is a duplicate is known only now, when all earlier steps are in."""
        made, completion = self.made, self.completion
        tokens = completion.prompt_tokens + completion.completion_tokens if completion else 0
        usd = completion.cost_usd if completion else 0.0
        charged: dict[str, float] = dict.fromkeys(self.asked, 0)
        if "proposals" in charged:
            charged["proposals"] = 1
        if completion is not None:
            charged |= {"tokens": tokens, "usd": usd}
        program = made.proposal.program if made else None
        summary, duplicate = self.earlier, self.earlier is not None
        if self.measuring is not None and self.measuring.evaluation is not None:
            evaluation = self.measuring.evaluation
            summary = Summary.of(evaluation)
            duplicate = state.first_seen(evaluation.program_id) is not None
            if not duplicate:
                charged["cpu_minutes"] = evaluation.cpu_s / 60 if self.step == self.measuring.owner else 0
                if evaluation.outcome is not Outcome.UNMEASURED:
                    charged["evaluations"] = 1
        return Candidate(
            decision=self.decision,
            program=program.id if program else None,
            rejection=made.proposal.rejection if made else None,
            detail=(made.proposal.detail if made else self.trouble)[:600],
            traits=made.traits if made else None,
            evaluation=summary,
            duplicate=duplicate,
            tokens=tokens,
            usd=usd,
            asked=self.asked,
            charged=charged,
        )
