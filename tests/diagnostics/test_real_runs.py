"""Diagnoses of real runs: who speaks on which fault, and who is silent where nothing is wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coevo.config import parse
from coevo.diagnostics.answer import answer
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.types import Diagnosis, Finding, Level
from coevo.evidence.opening import open_evidence
from coevo.runs import Run
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy

DATA = Path(__file__).parent / "data"
BAD = (Level.WARN, Level.CRITICAL)
FAULTS: dict[str, dict[str, Any]] = {
    "leak": {"toy": {"leak": 0.8}},
    "bonus": {"toy": {"bonus": 0.5}},
    "one level": {"toy": {"levels": 1}},
    "two levels": {"toy": {"levels": 2}},
    "lr": {"lr": 1e-3},
    "tiny lr": {"lr": 1e-7},
    "unmeasured": {"toy": {"unmeasured": 0.3}, "unmeasured": 0.5},
}
SPEAK = {
    "leak": {"reward-truth-gap", "reward-truth-agreement", "public-hidden-gap", "unfaithful-part", "entropy-collapse"},
    "bonus": {"reward-truth-gap", "saturated-part", "reward-spread", "entropy-collapse"},
    "one level": {"dead-groups", "reward-ties", "filter-keep"},
    "two levels": {"dead-groups", "filter-keep"},
    "lr": {"learning-rate-too-high", "entropy-collapse"},
    "tiny lr": {"learning"},
    "unmeasured": {"infrastructure"},
}
FIRE = {
    "leak": {"leak", "wrong-reward"},
    "bonus": {"shaped-reward-hack"},
    "one level": {"reward-too-coarse", "starved"},
    "two levels": {"reward-too-coarse", "starved"},
    "lr": {"collapsed-by-rate"},
    "tiny lr": {"no-learning-with-signal"},
    "unmeasured": set(),
}
OF_EXPLOITS = {
    "leak",
    "wrong-reward",
    "shaped-reward-hack",
    "collapsed-by-rate",
    "reward-too-coarse",
    "starved",
    "too-hard",
}


def the(diagnosis: Diagnosis, id: str) -> Finding:
    found = diagnosis.finding(id)
    assert found is not None, id
    return found


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory):
    """Diagnosis of a toy run with these settings."""
    root = tmp_path_factory.mktemp("runs")

    @cache
    def of(name: str, seed: int = 0) -> Diagnosis:
        path = root / f"{name}-{seed}"
        recipe = parse(Recipe, {"trainer": "toy", "steps": 60, "seed": seed, **FAULTS.get(name, {})}, where=name)
        with Run.create(path, kind="train", config=recipe.model_dump(mode="json")) as run:
            train_toy(recipe, run)
        return diagnose(open_evidence(path))

    return of


def spoken(diagnosis: Diagnosis, *levels: Level) -> set[str]:
    return {f.diagnostic for f in diagnosis.at(*levels)}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_sound_run_raises_no_alarm(diagnosed, seed: int) -> None:
    diagnosis = diagnosed("sound", seed)
    assert spoken(diagnosis, Level.CRITICAL) == set()
    # The toy has nine answers, so trained rollouts repeat some, and its padding is given up: tokens fall.
    assert spoken(diagnosis, Level.WARN) <= {"solution-diversity", "length-drift"}
    assert diagnosis.fired == ()
    assert answer(diagnosis).startswith("It is learning, and truly")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(diagnosed, fault: str) -> None:
    diagnosis = diagnosed(fault)
    assert spoken(diagnosis, *BAD) >= SPEAK[fault]
    fired = {rule.rule for rule in diagnosis.fired}
    assert fired >= FIRE[fault]
    assert not fired & (OF_EXPLOITS - FIRE[fault])
    assert all(
        f.reading.rows for f in diagnosis.at(Level.CRITICAL) if f.diagnostic in ("reward-truth-gap", "dead-groups")
    )


def test_the_answer_tells_a_leak_from_learning(diagnosed) -> None:
    assert "not real" in answer(diagnosed("leak"))
    assert "not learning" in answer(diagnosed("tiny lr"))
    assert "have no measurement" in answer(diagnosed("unmeasured"))


def test_a_real_language_model_trained_soundly_raises_no_alarm() -> None:
    diagnosis = diagnose(open_evidence(DATA / "sound.jsonl.gz"))
    assert spoken(diagnosis, Level.CRITICAL) == set()
    assert the(diagnosis, "learning").level is Level.OK


def test_a_real_language_model_that_an_update_broke_is_named() -> None:
    diagnosis = diagnose(open_evidence(DATA / "broken.jsonl.gz"))
    wanted = {"reward-collapse", "hopeless-groups", "learning-rate-too-high", "logprob-drift", "repetition"}
    assert wanted <= spoken(diagnosis, *BAD)
    assert {"broken-policy", "peaked-and-fell"} <= {rule.rule for rule in diagnosis.fired}
    assert "too-hard" not in {rule.rule for rule in diagnosis.fired}
    assert answer(diagnosis).startswith("It was better than it is")


def test_a_real_language_model_that_got_stuck_on_a_coarse_reward_is_named() -> None:
    diagnosis = diagnose(open_evidence(DATA / "stuck.jsonl.gz"))
    assert {"dead-groups", "reward-ties"} <= spoken(diagnosis, *BAD)
    assert {rule.rule for rule in diagnosis.fired} == {"reward-too-coarse"}


def test_a_sound_branch_starts_where_its_parent_does(tmp_path: Path) -> None:
    """Two seeds of one recipe: the same start, no worse end."""
    frames = []
    for seed in (5, 6):
        recipe = parse(Recipe, {"trainer": "toy", "steps": 30, "seed": seed}, where="twin")
        with Run.create(tmp_path / str(seed), kind="train", config=recipe.model_dump(mode="json")) as run:
            train_toy(recipe, run)
        frames.append(open_evidence(tmp_path / str(seed)))
    diagnosis = diagnose(*frames)
    assert the(diagnosis, "start-parity").level is Level.OK
    assert the(diagnosis, "against-baseline").level is Level.OK
