"""The whole state of a search: a fold of its committed candidates, in step order."""

from __future__ import annotations

from collections.abc import Mapping

from coevo.evaluation.types import Outcome
from coevo.evolution.archive import Archive, Island
from coevo.evolution.bandit import Bandit, nominal_cost
from coevo.evolution.purse import Purse
from coevo.evolution.records import Candidate
from coevo.evolution.settings import MODEL_EDITS, SearchConfig
from coevo.evolution.strategies import STRATEGIES
from coevo.evolution.tuner import Asked, Tuner
from coevo.evolution.types import Edit, Rejection

_ISLAND_SHARE = 0.9
"""Of a step's gain for the bandit: what it adds to the island's best. The rest is what it adds to the better of its parents."""

_TWO_PARENTS = frozenset({Edit.CROSSOVER, Edit.SPLICE})


class State:
    """`apply` is the only way in. Everything a decision reads is here."""

    def __init__(self, config: SearchConfig, limits: Mapping[str, int]) -> None:
        self.config = config
        self.strategy = STRATEGIES[config.strategy]
        self.batch = 1 if self.strategy.one_at_a_time else config.batch
        self.archive = Archive(config, islands=config.islands if self.strategy.islands else 1)
        self.bandit = Bandit()
        self.tuner = Tuner(config.seed)
        self.purse = Purse(limits)
        self.commits = 0
        self.seen: dict[int, int] = {}
        """Step at which each program (its id as a number) was first measured."""
        self.stalled = 0
        """Steps since the last new evaluation."""
        self.failed_replies = 0
        """Model steps in a row that got no reply."""
        self.latest: Candidate | None = None
        """The last measured candidate."""
        self.climber: Candidate | None = None
        """The last candidate at least as good as all before it."""
        self.rejected: dict[str, str] = {}
        """Per parent: why the last reply for it made no new child."""

    def first_seen(self, program: str) -> int | None:
        """The step at which a program was first measured, if it was."""
        return self.seen.get(int(program, 16))

    def apply(self, candidate: Candidate) -> None:
        """Fold in the next step."""
        if candidate.step != self.commits:
            raise ValueError(f"step {candidate.step} cannot follow {self.commits} commits; steps commit in order")
        self.purse.commit(candidate.step, candidate.charged)
        self._credit(candidate)
        self._tell_tuner(candidate)
        self._note_reply(candidate)
        summary = candidate.evaluation
        measured = summary is not None and summary.outcome is not Outcome.UNMEASURED
        if measured and not candidate.duplicate and candidate.program is not None:
            self.stalled = 0
            self.seen[int(candidate.program, 16)] = candidate.step
            self.archive.apply(candidate)
        else:
            self.stalled += 1
        if measured:
            self.latest = candidate
            if candidate.scored and (self.climber is None or _fitness(candidate) >= _fitness(self.climber)):
                self.climber = candidate
        self.commits += 1
        period = self.config.migrate_every * self.batch
        if period and len(self.archive.islands) > 1 and candidate.step > 0 and candidate.step % period == 0:
            self.archive.migrate()

    def _credit(self, candidate: Candidate) -> None:
        """Teach the bandit, before the archive learns of the child."""
        summary, edit = candidate.evaluation, candidate.decision.edit
        unmeasured = summary is not None and summary.outcome is Outcome.UNMEASURED
        if edit is Edit.START or unmeasured or candidate.rejection is Rejection.MODEL_FAILED:
            return
        gain = 0.0
        if candidate.scored and not candidate.duplicate:
            island = self.archive.islands[candidate.decision.island]
            fitness = _fitness(candidate)
            best = island.best.fitness if island.best else 0.0
            raw = _ISLAND_SHARE * max(0.0, fitness - best) + (1 - _ISLAND_SHARE) * _over_parents(candidate, island)
            gain = self.bandit.share(island.index, raw)
        self.bandit.tell(edit.value, gain=gain, cost=nominal_cost(candidate.tokens, self.config.token_price))

    def _tell_tuner(self, candidate: Candidate) -> None:
        decision, summary = candidate.decision, candidate.evaluation
        if decision.edit is not Edit.TUNE or not decision.offsets:
            return
        if summary is not None and summary.outcome is Outcome.UNMEASURED:
            return
        asked = Asked(decision.parent, decision.generation, decision.offsets)
        fitness = summary.fitness if summary is not None and candidate.scored else None
        self.tuner.tell((decision.island, decision.skeleton), asked, fitness)

    def _note_reply(self, candidate: Candidate) -> None:
        if candidate.decision.edit not in MODEL_EDITS:
            return
        if candidate.rejection is Rejection.MODEL_FAILED:
            self.failed_replies += 1
            return
        self.failed_replies = 0
        parent = candidate.decision.parent
        self.rejected.pop(parent, None)
        reason = candidate.detail if candidate.rejection is not None else _repeated(candidate)
        if reason:
            self.rejected[parent] = reason
            if len(self.rejected) > 1024:
                del self.rejected[next(iter(self.rejected))]


def _over_parents(candidate: Candidate, island: Island) -> float:
    """What a scored child adds to the better of its parents that live; copying the better one into the worse adds nothing."""
    decision = candidate.decision
    second = decision.others[:1] if decision.edit in _TWO_PARENTS else ()
    parents = [m.fitness for name in (decision.parent, *second) if (m := island.members.get(name)) is not None]
    return max(0.0, _fitness(candidate) - max(parents)) if parents else 0.0


def _repeated(candidate: Candidate) -> str:
    """What to tell a model that wrote a program which had been judged before; empty for a new one."""
    summary = candidate.evaluation
    if not candidate.duplicate or summary is None:
        return ""
    was = f"with fitness {summary.fitness:.6g}" if candidate.scored else "and failed"
    return f"The last answer repeats a program that was tried before {was}. Try something different."


def _fitness(candidate: Candidate) -> float:
    """Of a scored candidate."""
    assert candidate.evaluation is not None and candidate.evaluation.fitness is not None
    return candidate.evaluation.fitness
