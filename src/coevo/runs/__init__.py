"""Run folders: one SQLite database with append-only events, a budget ledger, resume, status and export."""

from coevo.runs.store import Run
from coevo.runs.types import Budget, Event, OverBudget, State, Ticket, parse_budget

__all__ = ["Budget", "Event", "OverBudget", "Run", "State", "Ticket", "parse_budget"]
