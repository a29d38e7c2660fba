"""What a lab's budget buys, said before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coevo.lab.settings import LabConfig


@dataclass(frozen=True)
class Plan:
    """Counts of a lab as its settings have it."""

    rounds: int
    """That the budget of steps pays for, at most those allowed."""
    allowed: int
    steps_first: int
    """Of the first recipe."""
    steps_round: int
    """Of a round in which nothing is pruned."""
    samples_look: int
    """Per task and arm."""
    looks: int
    calibrated: bool
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "warnings": list(self.warnings)}

    def lines(self) -> list[str]:
        """For a person."""
        return [
            f"budget: {counted(self.rounds, 'round')} ({self.steps_first} steps first, then at most {self.steps_round} a round)",
            (
                f"gate: up to {self.looks} looks of {self.samples_look} fresh samples per task and arm; the smallest gain that can be seen is known "
                "after calibration"
            ),
            *(f"warning: {line}" for line in self.warnings),
        ]


def counted(number: int, noun: str) -> str:
    """As in "2 rounds"; of one, without the s."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def preflight(config: LabConfig) -> Plan:
    """How far a lab gets by its settings."""
    per_round = config.steps * (config.branches + (1 if config.control else 0))
    least = config.steps * (1 + (1 if config.control else 0))
    rounds, budget = config.budget.rounds, config.budget
    warnings = []
    if budget.steps is not None:
        left = budget.steps - config.steps
        rounds = (
            min(rounds, max(0, left // per_round) + (1 if left % per_round >= least else 0)) if left >= least else 0
        )
        if rounds < budget.rounds:
            warnings.append(f"budget.steps = {budget.steps} pays {rounds} of {budget.rounds} rounds")
    if not config.control:
        warnings.append("control is off: what more steps alone do is taken for the changes' effect")
    if not config.calibration:
        warnings.append("calibration is off: nobody will know how often the gate promotes what is no gain")
    return Plan(
        rounds=rounds,
        allowed=budget.rounds,
        steps_first=config.steps,
        steps_round=per_round,
        samples_look=config.gate.samples,
        looks=config.gate.looks,
        calibrated=bool(config.calibration),
        warnings=tuple(warnings),
    )
