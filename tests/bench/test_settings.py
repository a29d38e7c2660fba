"""Arms, and what a study refuses."""

from __future__ import annotations

from typing import Any

import pytest

from coevo.bench.plan import Unit, arms_table, changed, plan, study_digest
from coevo.bench.settings import ARMS, StudyConfig, recipe_of
from coevo.bench.studies import study_of
from coevo.bench.suites import load_suite
from coevo.config import parse
from coevo.errors import ConfigError, UsageError

SUITE = {"train": ["a"], "validation": ["b"], "test": {"id": ["c"], "ood": ["d"]}}


def study(**changes: Any) -> StudyConfig:
    return parse(StudyConfig, {"name": "x", "model": "mini", "suite": SUITE, **changes}, where="study x")


def test_arms_differ_in_exactly_what_their_name_says() -> None:
    found = study(arms=list(ARMS), recipe={"reward": {"parts": {"search_gain": 1.0}}})
    changes = {name: set(found.differences(name)) for name in found.arms if found.arms[name].trained}
    assert changes["direct"] == {"reward.parts"}  # The study's own states are the statement alone.
    assert (
        changes["evolve_metaevolve"]
        == changes["evolve_lazy"]
        == changes["evolve_absolute"]
        == {"states.mix", "reward.parts"}
    )
    assert changes["evolve_difference"] == {"states.mix", "reward.parts", "advantage.name"}
    assert changes["evolve_search"] == {
        *("states.mix", "states.early", "advantage.name", "advantage.unit"),
        *("entropy.floor", "entropy.coefficient"),
    }
    assert found.differences("evolve_difference")["advantage.name"] == ("group_zscore", "raw")
    headers, rows = arms_table(found)
    assert len(rows) == len(ARMS) and all(len(row) == len(headers) for row in rows)
    recipe = recipe_of(found, "evolve_search", {"states.runs": ["r"], "seed": 7})
    assert recipe.advantage.name == "best_of_k" and recipe.states.mix == {"policy": 1.0} and recipe.seed == 7


def test_known_arms_can_be_changed_and_new_ones_added() -> None:
    found = study(
        arms={
            "search": {},
            "evolve_search": {"recipe": {"entropy.floor": 0.5}},
            "wide": {"search": {"batch": 8}},
            "hot": {"recipe": {"lr": 1e-3}},
        }
    )
    assert found.arms["evolve_search"].recipe == {**(ARMS["evolve_search"].recipe or {}), "entropy.floor": 0.5}
    assert found.search_of("wide").batch == 8 and found.search_of("search").batch == 4
    assert found.differences("hot") == {"lr": (1e-05, 0.001)}
    assert found.search_of("search").strategy == "evolve"
    assert study(arms=["best_of_n"]).search_of("best_of_n").strategy == "independent"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arms": ["serach"]}, "unknown arm 'serach'. Did you mean 'search'"),
        ({"arms": {"direct": {"recipe": {"steps": 5}}}}, "arm 'direct' changes recipe.steps"),
        ({"arms": {"direct": {"recipe": {"episode.max_tokens": 5}}}}, "changes recipe.episode.max_tokens"),
        ({"arms": {"new": {"strategy": "evlove"}}}, "strategy"),
        ({"arms": []}, "arms"),
        (
            {"arms": ["direct"], "suite": {"test": {"ood": ["d"]}}},
            "arm 'direct' trains, and the suite has no train split",
        ),
        ({"arms": ["direct"], "suite": {"train": ["a"], "test": {"ood": ["d"]}}}, "needs a validation split"),
        ({"sedes": 3}, "unknown setting 'sedes'. Did you mean 'seeds'"),
    ],
)
def test_studies_that_cannot_work(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        study(**changes)


def test_an_arm_with_a_setting_that_is_none_is_refused_by_name() -> None:
    found = study(arms={"search": {"search": {"bacth": 3}}, "direct": {"recipe": {"lr.x": 3}}})
    with pytest.raises(ConfigError, match="search of arm search: unknown setting 'bacth'"):
        found.search_of("search")
    with pytest.raises(ConfigError, match="'lr' is a value"):
        recipe_of(found, "direct", {})


def test_nothing_is_opened_before_all_is_trained_and_chosen() -> None:
    units = plan(study(arms=list(ARMS), seeds=3))
    phases = [unit.phase for unit in units]
    assert phases == sorted(phases, key=["pilot", "states", "train", "select", "test", "probe"].index)
    assert sum(unit.phase == "train" for unit in units) == 18 and sum(unit.phase == "test" for unit in units) == 54
    assert len({unit.key for unit in units}) == len(units)
    assert [u.seed for u in units if u.phase == "train"] == sorted(u.seed for u in units if u.phase == "train")
    bare = plan(study(arms=["search"], seeds=1, suite={"test": {"ood": ["d"]}}, select=1))
    assert bare == [Unit("test", "search", 0, "ood")]
    assert [u.phase for u in plan(study(arms=["search"], seeds=1)) if u.phase == "pilot"] == ["pilot"] * 2


def test_a_study_is_known_by_what_can_change_its_results() -> None:
    one, two, three = study(), study(title="other", pool="inline", ledger="x"), study(seed=1)
    digests = [study_digest(s.model_dump(mode="json")) for s in (one, two, three)]
    assert digests[0] == digests[1] != digests[2]
    assert changed(one.model_dump(mode="json"), three.model_dump(mode="json")) == ["seed"]


def test_every_search_is_bounded() -> None:
    assert str(study(evaluations=10).budget) == "evaluations=10,proposals=30"
    assert str(study(evaluations=10, tokens=900).budget) == "evaluations=10,tokens=900"
    assert str(study(evaluations=10, proposals=12).budget) == "evaluations=10,proposals=12"


@pytest.mark.parametrize("quick", [True, False])
def test_the_shipped_tasks_of_study_library_are_apart(quick: bool) -> None:
    suite = study_of("library", quick=quick, model="local").suite
    assert load_suite(suite).dropped == ()


def test_studies_by_name() -> None:
    meta = study_of("meta")
    assert set(meta.arms) == set(ARMS) and meta.seeds == 3 and len(meta.comparisons) == 2
    small = study_of(
        "meta", quick=True, seeds=1, arms=["search", "direct"], sets=["recipe.steps=2", "suite.limit={ood: 2}"]
    )
    assert list(small.arms) == ["search", "direct"] and small.recipe.steps == 2 and small.suite.limit == {"ood": 2}
    shipped = study_of("library", model="openai:some-model@http://localhost:1/v1")
    assert set(shipped.arms) == {"best_of_n", "self_refine", "search"} and shipped.keep_runs
    with pytest.raises(ConfigError, match="Did you mean 'meta'"):
        study_of("meat")
    with pytest.raises(UsageError, match="needs --model"):
        study_of("library")
    with pytest.raises(UsageError, match="needs --data"):
        study_of("real")
