"""Replaying a proposed reward, filter, limit, diagnostic or rule on recorded rollouts, before any training. Pure functions of frames.

    backtest_reward(frame, RewardConfig(parts={"search_gain": 1.0}))
    backtest_diagnostic(diagnostic_of(proposal), [Past("b1", frame, Known.GOOD), ...], shipped())
    admit(diagnostic_of(proposal), branches, shipped(), seed=0)

Every result has `to_dict()`, and a `prediction`: one number that `track` later holds against what came of the change.
"""

from coevo.backtest.admission import Admission, Review, admit, review
from coevo.backtest.candidates import Screened, Screening, candidates, screen
from coevo.backtest.diagnostic import DiagnosticBacktest, backtest_diagnostic
from coevo.backtest.filter import FilterBacktest, backtest_filter
from coevo.backtest.limit import LimitBacktest, backtest_limit
from coevo.backtest.proposed import Plain, diagnostic_of
from coevo.backtest.rescoring import Trained
from coevo.backtest.reward import RewardBacktest, backtest_reward
from coevo.backtest.rule import RuleBacktest, backtest_rule
from coevo.backtest.sandboxed import Bench
from coevo.backtest.terms import Term
from coevo.backtest.tracking import Tracking, track
from coevo.backtest.types import Entry, Known, Past, Proposed, known_of

__all__ = [
    "Admission",
    "Bench",
    "DiagnosticBacktest",
    "Entry",
    "FilterBacktest",
    "Known",
    "LimitBacktest",
    "Past",
    "Plain",
    "Proposed",
    "Review",
    "RewardBacktest",
    "RuleBacktest",
    "Screened",
    "Screening",
    "Term",
    "Tracking",
    "Trained",
    "admit",
    "backtest_diagnostic",
    "backtest_filter",
    "backtest_limit",
    "backtest_reward",
    "backtest_rule",
    "candidates",
    "diagnostic_of",
    "known_of",
    "review",
    "screen",
    "track",
]
