"""Briefs for the tests of agents."""

from coevo.diagnostics.types import Diagnosis, Finding, Fired, Layer, Level, Reading
from coevo.gate.types import Judgement, Verdict
from coevo.lab.types import Branch, BranchState, Brief, Change, Family, Prediction, Proposal

RECIPE = {
    "trainer": "toy",
    "lr": 1e-3,
    "group_size": 8,
    "advantage": {"name": "group_zscore", "k": 4},
    "filter": {"name": "zero_spread", "replace": 1},
    "reward": {"parts": {"search_gain": 1.0}},
    "entropy": {"floor": None},
    "loss": {"kl": 0.0},
    "episode": {"temperature": 1.0, "max_tokens": 64},
    "states": {"early": 0.5, "refresh": 10},
    "toy": {"bonus": 0.5, "leak": 0.0, "levels": None},
}
ALLOWED = {"lr": "rate", "toy.*": "world", "reward.parts": "reward", "entropy.*": "floor", "rewards/*.py": "rewards"}


def finding(name: str, level: Level, value: float | None = 1.0, note: str = "seen") -> Finding:
    return Finding(name, level, Reading(value, note, 100), Layer.SIGNAL)


def diagnosis(*findings: Finding, fired: tuple[Fired, ...] = ()) -> Diagnosis:
    return Diagnosis(findings=findings, fired=fired, unknown={"tool-errors": "no column tool_calls"}, rows=100)


def branch(
    name: str = "b0", parent: str | None = None, proposal: Proposal | None = None, verdict: Verdict | None = None
) -> Branch:
    judged = None if verdict is None else Judgement(verdict, ("because",), difference=-0.02, low=-0.1, high=0.05)
    return Branch(name, parent, 1, proposal, "c0ffee", BranchState.TRAINED, judgement=judged)


def proposal(
    sets: dict[str, object], family: Family = Family.HYPERPARAMETER, evidence: tuple[str, ...] = ("dead-groups",)
) -> Proposal:
    return Proposal(
        family, "It is so.", evidence, Change(sets=sets), Prediction("truth", "up", 0.01, 0.6), "gain", "undo"
    )


def brief(
    *findings: Finding,
    past: tuple[Branch, ...] = (),
    fired: tuple[Fired, ...] = (),
    wanted: int = 2,
    round: int = 1,
    **more: object,
) -> Brief:
    told: dict[str, object] = {
        "goal": "better",
        "round": round,
        "parent": branch(),
        "recipe": RECIPE,
        "diagnosis": diagnosis(*findings, fired=fired),
        "excerpts": (),
        "past": past,
        "skills": (),
        "calibration": None,
        "remaining": {"rounds": 5.0, "usd": None},
        "allowed": ALLOWED,
        "wanted": wanted,
    }
    return Brief(**(told | more))  # type: ignore[arg-type]
