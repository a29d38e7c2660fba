"""The reward audit: what planted cheats would earn under a recipe, beside honest work and doing nothing.

    report = audit(recipe)                  # judged now, in the sandbox
    report = gate(recipe)                   # from recorded judgements, in milliseconds; raises where a cheat pays

Definitions. *Nothing* is what doing nothing earns: the better of handing the parent back and of a different program of exactly the
parent's fitness. A plant *pays* when it earns more than nothing although it is no true gain: on hidden tests it is not fitter than
its parent, or it earns more than it would if the hidden tests were what the reward sees. "More" means by more than the parent's own
jitter is worth. *Leaks* (answers to the public tests, written down) are what no reward on public tests can tell from work by itself;
they are reported against the truth, and count as paying only where they earn as much as the honest gain does (novelty left aside).

The *break-even rate* of a parent is the chance of success p at which an honest attempt earns, on average, what handing the parent back
does: p * gain + (1 - p) * failure = nothing. A policy that succeeds less often is taught to hand its parent back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from coevo.errors import GateBlocked
from coevo.tasks import load_task
from coevo.tasks.types import Task
from coevo.training.advantages import advantages
from coevo.training.cheats import Role
from coevo.training.planting import Case, Planted, measure, recorded
from coevo.training.rewards import Reward, reward_of
from coevo.training.settings import Recipe
from coevo.training.types import Sample, Scored

TASKS = ("palindromes", "prime_count")
"""Audited unless others are named: shipped, quick to judge, and of different kinds of answers."""

EXACT = 1e-9


class Verdict(StrEnum):
    PAYS = "pays"
    LEAK = "leak"
    """Earns more than nothing by answers that were written down, and less than the honest gain."""
    FINE = "fine"
    HONEST = "honest"
    """Of honest work and of doing nothing: for comparison."""
    MASKED = "masked"
    """The reward gave no number."""


@dataclass(frozen=True)
class Finding:
    """One plant on one parent."""

    task: str
    parent: str
    plant: str
    role: Role
    about: str
    outcome: str
    reward: float | None
    truth: float | None
    """The reward if hidden tests were what it sees."""
    gain: float
    """In fitness on public tests; a reply without a program counts as 0."""
    true_gain: float
    """On hidden tests."""
    advantage: float | None
    """In a group of the recipe's size with one honest gain, all others honest failures."""
    verdict: Verdict
    reason: str = ""
    """Where the reward is masked: why."""


@dataclass(frozen=True)
class Balance:
    """What one parent's honest work and idleness earn."""

    task: str
    parent: str
    gain: float | None
    failure: float | None
    nothing: float | None
    """The parent handed back."""
    neutral: float | None
    """A different program of exactly the parent's fitness."""
    break_even: float | None
    """Success rate under which handing the parent back earns more than trying; 1 where trying never does, None where rewards are masked."""
    noise: float
    """By which the parent's fitness may seem to differ from itself."""


@dataclass(frozen=True)
class AuditReport:
    """Everything the audit found. `warnings` are sentences for a person."""

    findings: tuple[Finding, ...]
    balances: tuple[Balance, ...]
    warnings: tuple[str, ...]

    @property
    def paying(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.PAYS)

    @property
    def ok(self) -> bool:
        """Whether no planted cheat pays."""
        return not self.paying


def audit(recipe: Recipe, tasks: Sequence[str | Task] = TASKS) -> AuditReport:
    """Judge all plants on `tasks` now, in the recipe's sandbox, and say what they would earn: about half a minute a task.

    Raises `UsageError` for a task of another kind than function or without a reference, `ConfigError` for a reward that cannot be loaded.
    """
    with reward_of(recipe.reward) as reward:
        found = [task if isinstance(task, Task) else load_task(task) for task in tasks]
        return assess(recipe, reward, [case for task in found for case in measure(task, sandbox=recipe.sandbox)])


def gate(recipe: Recipe, *, timed: bool = True) -> AuditReport:
    """Refuse a recipe that pays a planted cheat, by the recorded cases: what training asks before it begins. The recorded tasks are timed;
    of tasks that are not (`timed` false), what times alone bring about is not told.

    Raises `GateBlocked` that names the cheats, unless the recipe has `allow_cheats`.
    """
    with reward_of(recipe.reward) as reward:
        report = assess(recipe, reward, recorded(), timed=timed)
    if report.ok or recipe.allow_cheats:
        return report
    worst = {f.plant: f for f in sorted(report.paying, key=lambda f: f.reward or 0.0)}
    told = "; ".join(f"{f.plant} ({f.about}) earns {f.reward:.3g}" for f in list(worst.values())[:4])
    raise GateBlocked(
        f"this reward pays for cheating: {told}, and none of it is a true gain. `coevo reward audit` shows all of it. Change reward.parts, raise "
        f"reward.tolerance ({recipe.reward.tolerance:g}) where jitter pays, "
        "or set allow_cheats: true to train all the same"
    )


def assess(recipe: Recipe, reward: Reward, cases: Sequence[Case], *, timed: bool = True) -> AuditReport:
    """What judged plants earn under a recipe. Executes nothing but reward functions of the user's own."""
    findings: list[Finding] = []
    balances: list[Balance] = []
    warnings: list[str] = []
    for case in cases:
        desk = _Desk(recipe, reward, case)
        balance = desk.balance()
        balances.append(balance)
        findings += [desk.finding(plant, balance) for plant in case.plants]
        warnings += desk.warnings(balance)
        if timed and (jitter := desk.warning_of_times(balance)):
            warnings.append(jitter)
    warnings += _about_leaks(findings, timed=timed) + _about_masks(findings)
    return AuditReport(tuple(findings), tuple(balances), tuple(warnings))


class _Desk:
    """One case under one recipe."""

    def __init__(self, recipe: Recipe, reward: Reward, case: Case) -> None:
        self.recipe, self.reward, self.case = recipe, reward, case
        self.slack = EXACT + case.noise * sum(abs(weight) for weight in recipe.reward.parts.values())
        self.gain, self.failure, self.nothing = (case.of(r) for r in (Role.GAIN, Role.FAILURE, Role.NOTHING))
        same = self.nothing.public
        self.neutral = replace(
            same,
            fitness=same.parent_fitness,
            correctness=same.parent_correctness,
            efficiency=same.parent_efficiency,
            contract_ok=True,
            rejection="",
            program_hash="neutral",
        )

    def earned(self, sample: Sample, *, hidden: bool = False) -> Scored:
        """What a sample earns in a group with an honest gain, an honest failure and the parent handed back."""
        others = [plant.hidden if hidden else plant.public for plant in (self.gain, self.failure, self.nothing)]
        group = [replace(s, max_tokens=self.recipe.episode.max_tokens) for s in (sample, *others)]
        return self.reward(group)[0]

    def balance(self) -> Balance:
        gain, failure, nothing = (self.earned(p.public).reward for p in (self.gain, self.failure, self.nothing))
        return Balance(
            self.case.task,
            self.case.parent,
            gain,
            failure,
            nothing,
            self.earned(self.neutral).reward,
            break_even(gain, failure, nothing),
            self.case.noise,
        )

    def finding(self, plant: Planted, balance: Balance) -> Finding:
        earned = self.earned(plant.public)
        truth = self.earned(plant.hidden, hidden=True).reward
        gain, true_gain = _gain(plant.public), _gain(plant.hidden)
        return Finding(
            self.case.task,
            self.case.parent,
            plant.name,
            plant.role,
            plant.about,
            plant.outcome,
            earned.reward,
            truth,
            gain,
            true_gain,
            self._advantage(earned.reward, balance),
            self._verdict(plant, earned, truth, true_gain, balance),
            earned.reason,
        )

    def _verdict(
        self, plant: Planted, earned: Scored, truth: float | None, true_gain: float, balance: Balance
    ) -> Verdict:
        reward = earned.reward
        if reward is None:
            return Verdict.MASKED
        if plant.role not in (Role.CHEAT, Role.LEAK):
            return Verdict.HONEST
        idle = [value for value in (balance.nothing, balance.neutral) if value is not None]
        untrue = true_gain <= self.case.noise or (truth is not None and reward > truth + self.slack)
        if not untrue or (idle and reward <= max(idle) + self.slack):
            return Verdict.FINE
        if plant.role is Role.LEAK and _plain(earned) < _plain(self.earned(self.gain.public)) - self.slack:
            return Verdict.LEAK
        return Verdict.PAYS

    def _advantage(self, reward: float | None, balance: Balance) -> float | None:
        rest = max(0, self.recipe.group_size - 2)
        rewards = [[reward], [balance.gain], *([balance.failure] for _ in range(rest))]
        return advantages(rewards, self.recipe.advantage)[0][0]

    def warnings(self, balance: Balance) -> list[str]:
        where = f"{self.case.task}, parent {self.case.parent}"
        found = []
        if balance.break_even is not None and balance.break_even >= 1:
            found.append(
                f"{where}: an honest gain earns no more than handing the parent back; nothing teaches this policy to improve"
            )
        elif balance.break_even:
            found.append(
                f"{where}: copy trap: handing the parent back ({balance.nothing:.3g}) beats trying unless at least "
                f"{balance.break_even:.0%} of the attempts succeed (gain {balance.gain:.3g}, failure {balance.failure:.3g})"
            )
        return found

    def warning_of_times(self, balance: Balance) -> str:
        """What jitter of measured times pays; empty where nothing."""
        noise, neutral = self.case.noise, balance.neutral
        paid = self.earned(replace(self.neutral, fitness=(self.neutral.fitness or 0.0) + noise)).reward
        if not noise or paid is None or neutral is None or paid <= neutral + EXACT:
            return ""
        return (
            f"{self.case.task}, parent {self.case.parent}: measured time jitters, and with it fitness, by about {noise:.2g}: that pays up to "
            f"{paid - neutral:.2g} for nothing. Set reward.tolerance to {noise:.1g}"
        )


def break_even(gain: float | None, failure: float | None, nothing: float | None) -> float | None:
    """The success rate p with p * gain + (1 - p) * failure = nothing, in [0, 1]; None where a reward is masked."""
    if gain is None or failure is None or nothing is None:
        return None
    if nothing <= failure and nothing < gain:
        return 0.0
    return min(1.0, (nothing - failure) / (gain - failure)) if gain > failure else 1.0


def _plain(scored: Scored) -> float:
    """A reward without what it owes to the others of its group: honest work can be as novel as any table."""
    return (scored.reward or 0.0) - scored.parts.get("novelty", 0.0)


def _gain(sample: Sample) -> float:
    return (sample.fitness or 0.0) - sample.parent_fitness if sample.rejection != "unchanged" else 0.0


def _about_leaks(findings: Sequence[Finding], *, timed: bool) -> list[str]:
    leaks = [f for f in findings if f.verdict is Verdict.LEAK]
    if not leaks:
        return []
    worst = max(leaks, key=lambda f: (f.reward or 0.0) - (f.truth or 0.0))
    told = (
        f"public tests leak: {worst.plant} on {worst.task}, parent {worst.parent}, earns {worst.reward:.3g} where the hidden tests would "
        f"give {worst.truth:.3g}. No reward on shown tests can see it; watch `truth` against `reward`, and use tasks with {'timing and ' * timed}many tests"
    )
    return [told]


def _about_masks(findings: Sequence[Finding]) -> list[str]:
    masked = [f for f in findings if f.verdict is Verdict.MASKED]
    return (
        [f"{len(masked)} planted replies have no reward, {masked[0].plant!r} first: {masked[0].reason}"]
        if masked
        else []
    )
