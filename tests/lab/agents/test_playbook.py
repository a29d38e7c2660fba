"""The playbook answers what the diagnosis found, and learns from what came of it."""

import random
from typing import get_args

import pytest

from coevo.config import assigned, parse
from coevo.diagnostics.types import Fired, Level
from coevo.gate.types import Verdict
from coevo.lab.agents.moves import MOVES, moves_for
from coevo.lab.agents.playbook import Playbook
from coevo.lab.proposals import problems_of
from coevo.lab.types import Family
from coevo.training.branch import changes
from coevo.training.settings import Recipe, RewardName
from tests.lab.agents.briefing import RECIPE, branch, brief, finding

HACK = finding("reward-truth-gap", Level.CRITICAL)


def shares(briefing, wanted: int = 1, n: int = 40) -> dict[str, float]:
    """How often each setting is the first proposal over seeds."""
    found: dict[str, float] = {}
    for seed in range(n):
        first = Playbook(seed).propose(briefing)[0]
        name = next(iter(first.change.sets))
        found[name] = found.get(name, 0) + 1 / n
    return found


def test_it_asks_for_what_the_diagnosis_speaks_for() -> None:
    fired = (Fired("leak", Level.CRITICAL, "says", ("reward-truth-gap",), (str(Family.REWARD),)),)
    assert shares(brief(HACK, fired=fired)).get("toy.bonus", 0) > 0.6
    assert shares(brief(finding("entropy-collapse", Level.CRITICAL))).get("toy.bonus", 0) < 0.2


def test_its_proposals_can_be_tried() -> None:
    allowed = {name: "" for move in MOVES for name in (move.sets(RECIPE) or {})}
    told = brief(HACK, finding("dead-groups", Level.WARN), wanted=4, allowed=allowed)
    found = Playbook(0).propose(told)
    assert len(found) == 4
    for one in found:
        assert problems_of(one, told) == []
    assert len({tuple(one.change.sets) for one in found}) == 4
    assert list(found) == list(Playbook(0).propose(told))


def test_what_failed_is_left_alone() -> None:
    [first] = Playbook(3).propose(brief(HACK, wanted=1))
    tried = branch("b1", "b0", first, Verdict.REJECTED)
    for seed in range(20):
        assert all(p.change != first.change for p in Playbook(seed).propose(brief(HACK, past=(tried,), wanted=3)))
    elsewhere = branch("b2", "b9", first, Verdict.INVALID)
    for seed in range(20):
        assert all(p.change != first.change for p in Playbook(seed).propose(brief(HACK, past=(elsewhere,), wanted=3)))


def test_success_raises_a_familys_chance_and_its_confidence() -> None:
    lower = next(
        p
        for s in range(200)
        for p in Playbook(s).propose(brief(finding("entropy-collapse", Level.WARN)))
        if "lr" in p.change.sets
    )
    good = tuple(branch(f"b{i}", f"x{i}", lower, Verdict.PROMOTED) for i in range(1, 6))
    bad = tuple(branch(f"b{i}", f"x{i}", lower, Verdict.REJECTED) for i in range(1, 6))
    asked = finding("entropy-collapse", Level.WARN)
    assert shares(brief(asked, past=good)).get("lr", 0) > shares(brief(asked, past=bad)).get("lr", 0)
    of = [
        next(
            p.prediction.confidence
            for s in range(200)
            for p in Playbook(s).propose(brief(asked, past=past))
            if "lr" in p.change.sets
        )
        for past in (good, bad)
    ]
    assert of[0] > of[1]


def test_what_falls_and_what_stands_still_ask_for_opposite_rates() -> None:
    rates = []
    for value in (-8.0, 0.1):
        told = brief(finding("learning", Level.CRITICAL, value), wanted=3)
        found = [
            p.change.sets["lr"] for seed in range(20) for p in Playbook(seed).propose(told) if "lr" in p.change.sets
        ]
        rates.append(found)
    assert max(rates[0]) < 1e-3 < max(rates[1])


def test_the_placebo_does_not_look() -> None:
    loud, silent = brief(HACK, wanted=3), brief(wanted=3)
    for seed in range(10):
        a, b = (Playbook(seed, blind=True).propose(told) for told in (loud, silent))
        assert [p.change for p in a] == [p.change for p in b]


def test_screened_terms_become_diagnostics_once() -> None:
    terms = ({"term": "corr(reward, truth)", "auc": 1.0, "p": 0.01, "warn": 0.3, "critical": 0.1},)
    made = Playbook(0).propose_diagnostic(brief(HACK, terms=terms), "scores cannot decide")
    assert made is not None and made.term == "corr(reward, truth)" and made.critical < made.warn
    assert Playbook(0).propose_diagnostic(brief(HACK), "gap") is None
    known = brief(HACK, finding(made.id, Level.OK), terms=terms)
    assert Playbook(0).propose_diagnostic(known, "gap") is None


def _some_recipe(rng: random.Random) -> Recipe:
    names = rng.sample(get_args(RewardName), rng.randint(1, 3))
    data = {
        "trainer": rng.choice(["toy", "grpo"]),
        "lr": 10 ** rng.uniform(-8, -2),
        "group_size": rng.choice([2, 4, 8, 64]),
        "reward": {"parts": dict.fromkeys(names, 1.0)},
        "filter": {"name": rng.choice(["none", "zero_spread", "snr"])},
        "entropy": {"floor": rng.choice([None, 0.1, 0.5])},
        "toy": {"bonus": rng.choice([0.0, 0.5]), "levels": rng.choice([None, 2]), "leak": rng.choice([0.0, 0.8])},
    }
    return parse(Recipe, data, where="test")


@pytest.mark.parametrize("seed", range(30))
def test_every_move_makes_a_sound_recipe_and_changes_one_setting(seed: int) -> None:

    recipe = _some_recipe(random.Random(seed))
    plain = recipe.model_dump(mode="json")
    seen = 0
    for move, sets in moves_for(plain):
        changed = parse(Recipe, assigned(plain, sets), where=move.name)
        [name] = sets
        assert all(c.field == name or c.field.startswith(f"{name}.") for c in changes(recipe, changed))
        assert changes(recipe, changed)
        seen += 1
    assert seen >= 8


def test_moves_answer_diagnostics_that_exist() -> None:
    registry = pytest.importorskip("coevo.diagnostics.registry", reason="the registry")
    known = registry.shipped()
    for move in MOVES:
        for name in move.answers:
            assert name.partition(":")[0] in known, f"{move.name} answers {name}, which is no diagnostic"
