"""Budgets: read, bounded under any interleaving, exact, and honest about money after a kill."""

from __future__ import annotations

import math
import pickle
import random
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from coevo.errors import BudgetSpent, ConfigError, UsageError
from coevo.runs import Budget, OverBudget, Run, Ticket, parse_budget
from coevo.runs.types import DIMENSIONS, from_units, to_units
from tests.runs.conftest import MEMORY, Create

LIMITS = Budget(evaluations=20, tokens=1000, usd=0.01)


def test_a_budget_is_read() -> None:
    assert parse_budget("evaluations=200,tokens=1e6, usd=0.5 ,minutes=2") == Budget(
        evaluations=200, tokens=1_000_000, usd=0.5, minutes=2
    )
    assert parse_budget("") == Budget() and Budget().limits() == {}


@given(
    budget=st.builds(
        Budget,
        evaluations=st.none() | st.integers(1, 10**15),
        tokens=st.none() | st.integers(1, 10**15),
        usd=st.none() | st.sampled_from([0.5, 1e-6, 12.25, 1000.0]),
        cpu_minutes=st.none() | st.sampled_from([0.25, 30.0]),
    )
)
def test_a_budget_prints_as_it_is_read(budget: Budget) -> None:
    assert parse_budget(str(budget)) == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evaluations", "must be NAME=NUMBER"),
        ("evaluations=", "must be NAME=NUMBER"),
        ("evals=3", "Did you mean 'evaluations'"),
        ("tokens=many", "tokens='many' is not a number"),
        ("tokens=2.5", "tokens = 2.5"),
        ("tokens=0", "tokens = 0"),
        ("usd=-1", "usd = -1"),
        ("usd=nan", "usd = nan"),
        ("usd=inf", "usd = inf"),
        ("evaluations=inf", "evaluations = inf"),
        ("usd=1,usd=2", "given twice"),
        ("minutes=1e30", "minutes = 1e"),
    ],
)
def test_a_bad_budget_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_budget(text)


@given(name=st.sampled_from(DIMENSIONS), units=st.integers(0, 10**15))
def test_units_are_exact(name: str, units: int) -> None:
    assert to_units(name, from_units(name, units % 10**12)) == units % 10**12


def test_a_reservation_over_the_budget_says_its_figures(make: Create) -> None:
    ledger = make(budget=LIMITS).ledger
    ledger.settle(ledger.reserve("model", tokens=600))
    held = ledger.reserve("model", tokens=300, usd=0.001)
    with pytest.raises(OverBudget, match=r"tokens=1000 .* asked 200, remaining 100 \(300 more held") as caught:
        ledger.reserve("model", tokens=200, evaluations=1)
    error = caught.value
    assert (error.dimension, error.asked, error.remaining, error.held) == ("tokens", 200, 100, 300)
    assert isinstance(error, BudgetSpent) and error.exit_code == 3
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert ledger.held()["evaluations"] == 0  # Nothing was held of what was refused.
    ledger.release(held)
    ledger.settle(ledger.reserve("model", tokens=200), tokens=150)
    assert ledger.spent()["tokens"] == 750 and ledger.remaining()["tokens"] == 250
    assert ledger.remaining()["cpu_minutes"] is None


def test_what_is_not_given_is_charged_as_reserved(make: Create) -> None:
    ledger = make().ledger
    ledger.settle(ledger.reserve("a", evaluations=1, tokens=50), tokens=7, cpu_minutes=0.25)
    ledger.settle(ledger.reserve("b", proposals=2))
    spent = ledger.spent()
    assert (spent["evaluations"], spent["tokens"], spent["cpu_minutes"], spent["proposals"]) == (1, 7, 0.25, 2)
    assert ledger.by_purpose()["a"]["settled"] == 1 and ledger.by_purpose()["b"]["proposals"] == 2


def test_a_ticket_is_used_once(make: Create) -> None:
    ledger = make().ledger
    ticket = ledger.reserve("a", evaluations=1)
    ledger.settle(ticket)
    for again in (ledger.settle, ledger.release):
        with pytest.raises(UsageError, match="not open"):
            again(ticket)
    with pytest.raises(UsageError, match="not open"):
        ledger.settle(Ticket(99, "a", None))
    assert ledger.spent()["evaluations"] == 1


@pytest.mark.parametrize(
    "amounts", [{"tokens": -1}, {"usd": math.nan}, {"tokens": 1.5}, {"pounds": 1}, {"minutes": 1}, {"usd": math.inf}]
)
def test_amounts_that_are_none_are_refused(make: Create, amounts: dict[str, float]) -> None:
    ledger = make(budget=LIMITS).ledger
    with pytest.raises(UsageError, match=next(iter(amounts))):
        ledger.reserve("a", **amounts)
    ticket = ledger.reserve("a", evaluations=1)
    if "minutes" not in amounts:
        with pytest.raises(UsageError):
            ledger.settle(ticket, **amounts)
    ledger.settle(ticket)
    assert ledger.spent()["evaluations"] == 1
    with pytest.raises(UsageError, match="own"):
        ledger.reserve("lost", usd=1)


def test_spent_time_stops_everything(make: Create) -> None:
    ledger = make(budget=Budget(cpu_minutes=1.0)).ledger
    ledger.settle(ledger.reserve("a", evaluations=1), cpu_minutes=1.5)
    assert ledger.spent()["cpu_minutes"] == 1.5  # More than was allowed is charged as it is.
    with pytest.raises(OverBudget, match="cpu_minutes"):
        ledger.reserve("a", evaluations=1)


def test_wall_minutes_go_on_over_resumes(make: Create, tmp_path: Path) -> None:
    run = make(budget=Budget(minutes=1e9))
    while run.ledger.spent()["minutes"] == 0:
        pass
    run.close()
    with Run.open(tmp_path / "run", write=False) as reader:
        before = reader.ledger.spent()["minutes"]
        assert before > 0 and reader.ledger.spent()["minutes"] == before
    with Run.open(tmp_path / "run", write=True) as again:
        assert again.ledger.spent()["minutes"] >= before
    with (
        Run.open(tmp_path / "run", write=True, budget=Budget(minutes=before)) as again,
        pytest.raises(OverBudget, match="minutes"),
    ):
        again.ledger.reserve("a", evaluations=1)


def test_money_in_flight_at_a_kill_is_counted_as_lost(make: Create, tmp_path: Path) -> None:
    run = make(budget=LIMITS)
    run.ledger.settle(run.ledger.reserve("model", usd=0.002, tokens=10))
    run.ledger.reserve("model", step=3, usd=0.006, tokens=100)
    run.ledger.reserve("local", step=4, tokens=500, evaluations=5)
    run._drop()  # What a kill leaves: nothing is written, the lock goes.
    with Run.open(tmp_path / "run", write=True) as run:
        assert run.ledger.spent()["usd"] == pytest.approx(0.008)
        assert run.ledger.spent()["tokens"] == 10 and run.ledger.spent()["evaluations"] == 0
        assert run.ledger.held()["usd"] == 0
        lost = [e.payload for e in run.events(kinds=["run.lost"])]
        assert lost == [{"reservations": 1, "usd": 0.006, "steps": [3]}]
        with pytest.raises(OverBudget, match="usd"):
            run.ledger.reserve("model", usd=0.003)
    with Run.open(tmp_path / "run", write=True) as run:
        assert run.ledger.spent()["usd"] == pytest.approx(0.008)


def test_a_failed_transaction_takes_its_settlement_back(make: Create) -> None:
    ledger = (run := make(budget=LIMITS)).ledger
    first = ledger.reserve("model", usd=0.004)
    later: list[Ticket] = []

    def work() -> None:
        with run.transaction():
            ledger.settle(first)
            later.append(ledger.reserve("model", usd=0.005))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert ledger.spent()["usd"] == 0 and ledger.held()["usd"] == 0.004
    with pytest.raises(UsageError, match="not open"):
        ledger.settle(later[0])
    ledger.settle(first)
    assert ledger.spent()["usd"] == 0.004


def test_a_refusal_inside_a_transaction_does_not_spoil_it(make: Create) -> None:
    run = make(budget=Budget(evaluations=1))
    with run.transaction():
        run.ledger.settle(run.ledger.reserve("a", evaluations=1))
        with pytest.raises(OverBudget):
            run.ledger.reserve("a", evaluations=1)
        run.append("end", {})
    assert run.ledger.spent()["evaluations"] == 1 and [e.kind for e in run.events(after=1)] == ["end"]


@settings(max_examples=10, deadline=None)
@given(amounts=st.lists(st.floats(0, 1), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_totals_do_not_depend_on_the_order_of_settling(amounts: list[float], seed: int) -> None:
    totals = set()
    for order in (amounts, random.Random(seed).sample(amounts, len(amounts))):
        with (
            tempfile.TemporaryDirectory(dir=MEMORY) as folder,
            Run.create(Path(folder) / "r", kind="k", config={}) as run,
        ):
            for ticket, amount in [(run.ledger.reserve("a", usd=amount), amount) for amount in order]:
                run.ledger.settle(ticket, usd=amount)
            totals.add(run.ledger.spent()["usd"])
    assert len(totals) == 1


def test_threads_together_never_overspend(make: Create) -> None:
    run = make(budget=Budget(evaluations=100, usd=1.0))
    settled: list[float] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        while True:
            try:
                ticket = run.ledger.reserve("w", evaluations=rng.randint(1, 3), usd=0.01)
            except OverBudget as e:
                if not e.held:
                    return
                continue
            usd = rng.choice([0.0, 0.005, 0.01])
            run.ledger.settle(ticket, usd=usd)
            settled.append(usd)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = run.ledger.spent()
    assert 97 < spent["evaluations"] <= 100 and spent["usd"] == pytest.approx(sum(settled)) and spent["usd"] <= 1.0


class Interleavings(RuleBasedStateMachine):
    """Reserve, settle, release, kill and resume in any order, against a model that only adds."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.path = Path(self.folder.name) / "run"
        self.run = Run.create(self.path, kind="k", config={}, budget=LIMITS)
        self.spent = {"evaluations": 0, "tokens": 0, "usd": 0}
        self.open: dict[int, Ticket] = {}

    @rule(target=tickets, evaluations=st.integers(0, 8), tokens=st.integers(0, 400), milli_usd=st.integers(0, 4))
    def reserve(self, evaluations: int, tokens: int, milli_usd: int) -> Ticket | None:
        try:
            ticket = self.run.ledger.reserve("w", evaluations=evaluations, tokens=tokens, usd=milli_usd / 1000)
        except OverBudget:
            return None
        self.open[ticket.id] = ticket
        return ticket

    @rule(ticket=consumes(tickets), share=st.floats(0, 1))
    def settle(self, ticket: Ticket | None, share: float) -> None:
        if ticket is None or self.open.get(ticket.id) is not ticket:
            return
        del self.open[ticket.id]
        tokens = int(ticket.amounts["tokens"] * share)
        self.run.ledger.settle(ticket, tokens=tokens)
        for name, amount in {**ticket.amounts, "tokens": tokens}.items():
            self.spent[name] += amount

    @rule(ticket=consumes(tickets))
    def release(self, ticket: Ticket | None) -> None:
        if ticket is not None and self.open.get(ticket.id) is ticket:
            del self.open[ticket.id]
            self.run.ledger.release(ticket)

    @rule()
    def kill_and_resume(self) -> None:
        self.run._drop()
        self.run = Run.open(self.path, write=True)
        self.spent["usd"] += sum(ticket.amounts["usd"] for ticket in self.open.values())
        self.open = {}

    @invariant()
    def spent_is_the_sum_of_what_was_settled_and_within_bounds(self) -> None:
        spent, held, left = self.run.ledger.spent(), self.run.ledger.held(), self.run.ledger.remaining()
        for name, limit in LIMITS.limits().items():
            assert to_units(name, spent[name]) == self.spent[name]
            reserved = sum(ticket.amounts[name] for ticket in self.open.values())
            assert to_units(name, held[name]) == reserved and self.spent[name] + reserved <= limit
            assert left[name] == from_units(name, limit - self.spent[name] - reserved)

    def teardown(self) -> None:
        self.run.close()
        self.folder.cleanup()


Interleavings.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestInterleavings = Interleavings.TestCase
