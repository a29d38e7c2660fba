"""A study whose arms train: a language model of a few thousand steps' distance from sense, but every part of the loop is real."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coevo.bench import page
from coevo.bench.phases import recipe_for
from coevo.bench.plan import Unit
from coevo.bench.report import report_of
from coevo.bench.settings import StudyConfig
from coevo.bench.study import Ended, results_of, run_study
from coevo.config import parse
from coevo.runs import Run

torch = pytest.importorskip("torch", reason="training needs torch (pip install 'coevo[train]')")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def weights(begun_mini: Path) -> Path:
    return begun_mini


def study(weights: Path, **changes: Any) -> StudyConfig:
    settings: dict[str, Any] = {
        "name": "trained",
        "model": f"local:{weights},max_tokens=24,batch=64,threads=1",
        "arms": {
            "search": {},
            "direct": {},
            "evolve_search": {"recipe": {"states.mix": {"search": 0.5, "policy": 0.5}}},
        },
        "seeds": 1,
        "suite": {
            "name": "mini",
            "train": ["mini:train:3"],
            "validation": ["mini:validation:2"],
            "test": {"ood": ["mini:unseen:4"]},
            "ngram": None,
        },
        "evaluations": 4,
        "proposals": 4,
        "recipe": {
            "steps": 2,
            "groups": 2,
            "group_size": 4,
            "lr": 1e-3,
            "filter": {"name": "none"},
            "states": {
                "refresh": 1,
                "searches": 2,
                "search": {"steps": 4, "batch": 4, "islands": 1, "verify": False, "proposers": {"rewrite": 1.0}},
            },
            "allow_cheats": True,
        },
        "states": {"tasks": 3, "evaluations": 5},
        "probe": {"states": 0},
        "parallel": 4,
        "pool": "inline",
    }
    return parse(StudyConfig, settings | changes, where="test")


def test_a_study_trains_chooses_and_tests(weights: Path, tmp_path: Path) -> None:
    config, lines = study(weights), []
    outcome = run_study(config, tmp_path / "run", notify=lines.append)
    assert outcome.ended is Ended.FINISHED
    with Run.open(tmp_path / "run", write=False) as run:
        report, results = report_of(run), results_of(run)
    trained = {(t["arm"], t["seed"]): t for t in report["training"]}
    assert set(trained) == {("direct", 0), ("evolve_search", 0)}
    for training in trained.values():
        assert training["steps"] == 2 and len(training["checkpoints"]) == 2
        assert training["spent"]["tokens"] > 0 and training["spent"]["evaluations"] > 0
        assert [step for step, _ in training["curves"]["copy_rate"]] == [1, 2]
    # The policy's own searches cost extra, and that is not hidden.
    assert trained["evolve_search", 0]["spent"]["evaluations"] > trained["direct", 0]["spent"]["evaluations"]
    for arm in ("direct", "evolve_search"):
        chosen = report["selection"][f"{arm}/0"]
        assert chosen["checkpoint"] in trained[arm, 0]["checkpoints"] and len(chosen["scores"]) == 2
        assert chosen["scores"][chosen["checkpoint"]] == max(chosen["scores"].values())
        assert (
            Path(results[f"test/ood/{arm}/0"]["model"].split(",")[0].removeprefix("local:"))
            == tmp_path / "run" / chosen["checkpoint"]
        )
    assert {(d["arm"], d["other"]) for d in report["differences"] if d["primary"]} == {
        ("evolve_search", "search"),
        ("evolve_search", "direct"),
    }
    assert all(len(results[f"test/ood/{arm}/0"]["what"]) == 64 for arm in config.arms)
    files = {path.name for path in page.write(report, tmp_path / "results", command="x")}
    assert "training.png" in files
    text = (tmp_path / "results" / "README.md").read_text()
    assert "## Training" in text and "evolve_search" in text[text.index("named beforehand") :][:400]
    kept = {path.parent.name for path in (tmp_path / "run" / "searches").rglob("run.db")}
    assert len(kept) == 3  # Of the training tasks; the others left their records only.


def test_a_training_asked_to_stop_goes_on_and_ends_the_same(weights: Path, tmp_path: Path) -> None:
    suite = {**study(weights).suite.model_dump(), "validation": [], "test": {"ood": ["mini:unseen:2"]}}
    recipe = {**study(weights).recipe.model_dump(mode="json"), "steps": 6}
    config = study(weights, arms=["direct"], name="stopped", primary=[], select=1, suite=suite, recipe=recipe)
    assert run_study(config, tmp_path / "whole").ended is Ended.FINISHED
    path = tmp_path / "run" / "training" / "direct-0"

    def ask() -> None:
        while not (path / "run.db").exists():
            time.sleep(0.001)
        (path / "stop").touch()

    asking = threading.Thread(target=ask)
    asking.start()
    assert run_study(config, tmp_path / "run").ended is Ended.INTERRUPTED
    asking.join()
    with Run.open(tmp_path / "run", write=False) as run:
        assert results_of(run) == {}
    assert run_study(config, tmp_path / "run", force=True).ended is Ended.FINISHED
    ends = []
    for name in ("whole", "run"):
        with Run.open(tmp_path / name, write=False) as run:
            results = results_of(run)
        curve = results["train/direct/0"]["curves"]["fitness"]
        ends.append((curve, [row["digest"] for row in results["test/ood/direct/0"]["records"]]))
    assert ends[0] == ends[1] and len(ends[0][0]) == 6


def test_arms_of_one_seed_share_what_they_can(weights: Path, tmp_path: Path) -> None:
    from coevo.bench.holdout import Holdout
    from coevo.bench.phases import Bench
    from coevo.bench.policies import policy_spec
    from coevo.bench.suites import load_suite
    from coevo.evaluation.judges import open_judges

    config = study(weights)
    suite = load_suite(config.suite)
    results = {"states/train/search/0": {"records": [{"run": "states/search-0/a"}]}}
    with open_judges("inline", suite.tasks) as pool:
        holdout = Holdout(tmp_path / "ledger", study="x")
        bench = Bench(config, tmp_path, suite, pool, holdout, policy_spec(config.model), results)
        direct, evolve = (recipe_for(bench, Unit("train", arm, 0)) for arm in ("direct", "evolve_search"))
    assert direct.base == evolve.base == str(weights) and direct.seed == evolve.seed
    assert direct.episode == evolve.episode and direct.episode.max_tokens == 24
    assert direct.states.tasks == evolve.states.tasks and len(direct.states.tasks) == 3
    assert direct.states.runs == () and evolve.states.runs == (str(tmp_path / "searches/states/search-0/a"),)
    assert direct.checkpoint_every == evolve.checkpoint_every == 1
    differ = {name for name, value in direct.model_dump().items() if value != evolve.model_dump()[name]}
    assert differ == {"states", "reward", "advantage", "entropy"}
