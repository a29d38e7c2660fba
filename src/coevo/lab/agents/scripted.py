"""An agent that reads its proposals from a file: tests, replays, and a person's own plan.

JSONL, one turn a line: a list of proposals (or one), or {"diagnostic": {...}}; null passes the turn. Lines are taken by turn, so a resumed lab goes on
where it was. After the last line nothing is proposed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.config import read_text
from coevo.errors import ConfigError, UsageError
from coevo.lab.proposals import diagnostic_proposal_of, proposal_of
from coevo.lab.types import Brief, DiagnosticProposal, Proposal


class Scripted:
    """Proposals of round N (from 1) are line N's; what came back is not tried again. Raises `UsageError` for a file that cannot be read."""

    name = "scripted"

    def __init__(self, script: Path) -> None:
        self.script = script
        try:
            lines = [line for line in read_text(script).splitlines() if line.strip()]
        except ConfigError as e:
            raise UsageError(f"agent.script: {e}") from None
        self._turns = [_line(text, f"{script}:{number}") for number, text in enumerate(lines, 1)]

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        turn = self._turn(brief.round)
        if brief.returned or turn is None:
            return ()
        where = f"{self.script}:{brief.round}"
        return [
            proposal_of(one, where=where)
            for one in (turn if isinstance(turn, list) else [turn])
            if "diagnostic" not in one
        ]

    def propose_diagnostic(self, brief: Brief, gap: str) -> DiagnosticProposal | None:
        turn = self._turn(brief.round)
        for one in turn if isinstance(turn, list) else [turn]:
            if isinstance(one, Mapping) and "diagnostic" in one:
                return diagnostic_proposal_of(one["diagnostic"], where=f"{self.script}:{brief.round}")
        return None

    def spent(self) -> Mapping[str, float]:
        return {}

    def _turn(self, round: int) -> Any:
        return self._turns[round - 1] if 1 <= round <= len(self._turns) else None


def _line(text: str, where: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as e:
        raise UsageError(f"{where} is no JSON: {e}") from None
    parts = found if isinstance(found, list) else [found]
    if found is not None and not all(isinstance(one, dict) for one in parts):
        raise UsageError(f"{where}: a turn is a proposal (a mapping), a list of them, or null")
    return found
