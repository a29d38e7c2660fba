"""Whole studies of untrained arms: real searches in the real sandbox, with a scripted model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coevo.bench import page
from coevo.bench.holdout import Holdout
from coevo.bench.plan import plan
from coevo.bench.report import report_of
from coevo.bench.study import Ended, facts_of, results_of, resume_study, run_study
from coevo.errors import ConfigError, GateBlocked, ModelError, StoreError
from coevo.models.scripted import Scripted, write_script
from coevo.runs import Run
from tests.bench.made import GOOD, scripted_study


def told(out: Path) -> dict[str, Any]:
    """All that a study measured, without times and places."""
    with Run.open(out, write=False) as run:
        results = results_of(run)
    kept = {}
    for key, data in results.items():
        rows = [{k: v for k, v in row.items() if k not in ("wall_s", "cpu_s")} for row in data.get("records", [])]
        kept[key] = {"records": rows, "probes": data.get("probes")}
    return kept


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A study that ran through."""
    folder = tmp_path_factory.mktemp("study")
    lines: list[str] = []
    outcome = run_study(scripted_study(folder), folder / "run", notify=lines.append)
    assert outcome.ended is Ended.FINISHED and outcome.done == outcome.units and outcome.exit_code == 0
    return folder, lines


def test_what_could_be_found_is_said_before_a_test_split_is_opened(finished: tuple[Path, list[str]]) -> None:
    _, lines = finished
    said = [i for i, line in enumerate(lines) if line.startswith("minimum detectable effect on ood")]
    opened = [i for i, line in enumerate(lines) if line.startswith("holdout mini/")]
    assert len(said) == 1 and len(opened) == 12 and said[0] < min(opened)
    assert "opened once by this study" in lines[opened[0]]


def test_the_report_holds_every_number_with_its_search(finished: tuple[Path, list[str]]) -> None:
    folder, _ = finished
    with Run.open(folder / "run", write=False) as run:
        report = report_of(run)
    assert report["complete"] and report["units"]["done"] == len(plan(scripted_study(folder)))
    rows = {(row["split"], row["arm"]): row for row in report["table"]}
    assert set(rows) == {(split, arm) for split in ("id", "ood") for arm in ("best_of_n", "self_refine", "search")}
    for (split, arm), row in rows.items():
        mine = [s for s in report["searches"] if s["suite"] == split and s["arm"] == arm]
        assert len(mine) == row["searches"] == row["measured"] == 2 * (3 if split == "id" else 4)
        assert row["fitness"] == pytest.approx(sum(s["hidden_best"] for s in mine) / len(mine))
        assert all(s["evaluations"] <= 5 and len(s["digest"]) == 16 for s in mine)
        curve = report["curves"][split][arm]["points"]
        assert len(curve) == 5 and list(curve) == sorted(curve)
    families = {row["family"]: row for row in report["families"]["ood"]}
    assert sum(row["tasks"] for row in families.values()) == 4 and len(families) > 1
    weighed = sum(row["tasks"] * row["fitness"]["search"] for row in families.values()) / 4
    assert weighed == pytest.approx(rows["ood", "search"]["fitness"])
    assert all(d["other"] == "search" and not d["primary"] for d in report["differences"])
    assert len(report["differences"]) == 4
    assert rows["id", "self_refine"]["distinct"] is None and rows["id", "search"]["distinct"] > 0
    assert {(p["arm"], p["variant"]) for p in report["probes"]} == {
        ("search", v) for v in ("true", "feedback", "history")
    }
    assert all(p["loss"] is None or len(p["loss"]) == 3 for p in report["probes"])


def test_the_report_is_written_for_people_and_programs(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = finished
    with Run.open(folder / "run", write=False) as run:
        report = report_of(run)
    files = {path.name: path for path in page.write(report, tmp_path / "results", command="coevo bench x.yaml")}
    assert {
        "results.json",
        "README.md",
        "evolve-at-k.png",
        "evolve-at-k.svg",
        "differences.png",
        "differences.svg",
    } == set(files)
    read = json.loads(files["results.json"].read_text())
    assert read["table"] == json.loads(json.dumps(report["table"]))
    assert read["searches"]["hidden_best"] == [row["hidden_best"] for row in report["searches"]]
    text = files["README.md"].read_text()
    assert text.index("What could be found at all") < text.index("## id: 3 tasks") and "`coevo bench x.yaml`" in text
    assert "Every test split was opened once" in text and "![evolve@k](evolve-at-k.png)" in text
    again = {path.name: path for path in page.write(report, tmp_path / "again", command="coevo bench x.yaml")}
    for name in ("results.json", "README.md", "evolve-at-k.svg", "differences.svg"):
        assert files[name].read_bytes() == again[name].read_bytes(), name


def test_a_finished_study_is_only_read_and_other_settings_are_refused(finished: tuple[Path, list[str]]) -> None:
    folder, _ = finished
    before = told(folder / "run")
    assert run_study(scripted_study(folder), folder / "run").ended is Ended.FINISHED
    assert resume_study(folder / "run").done == len(plan(scripted_study(folder)))
    assert told(folder / "run") == before
    with pytest.raises(ConfigError, match=r"other settings \(evaluations, seed\)"):
        run_study(scripted_study(folder, evaluations=6, seed=1), folder / "run")


def test_the_same_study_elsewhere_is_refused_a_second_look_unless_forced(
    finished: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, _ = finished
    ledger = str(folder / "holdout.jsonl")
    same = scripted_study(folder, ledger=ledger)
    with pytest.raises(GateBlocked, match="has opened test split mini/id"):
        run_study(same, tmp_path / "again")
    with Run.open(tmp_path / "again", write=False) as run:
        assert not any(key.startswith("test/") for key in results_of(run))
    assert run_study(same, tmp_path / "again", force=True).ended is Ended.FINISHED
    with Run.open(tmp_path / "again", write=False) as run:
        report = report_of(run)
    assert all(t["study"] == 2 and t["forced"] for t in report["holdout"])
    assert "TOUCHED MORE THAN ONCE" in page.markdown(report, [], command="x")
    mine, theirs = told(tmp_path / "again"), told(folder / "run")
    assert mine == theirs  # Equal settings, equal numbers: whatever folder, whatever day.


def test_minutes_end_a_study_between_searches_and_it_goes_on(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = finished
    config = scripted_study(folder, ledger=str(tmp_path / "ledger"))
    outcome = run_study(config, tmp_path / "run", minutes=1e-5)
    assert outcome.ended is Ended.MINUTES and outcome.exit_code == 3 and outcome.done < outcome.units
    minutes = 0.01
    while outcome.ended is Ended.MINUTES:  # However slow the machine, some sitting is long enough for a unit.
        outcome = run_study(config, tmp_path / "run", minutes=minutes)
        minutes *= 2
    assert outcome.ended is Ended.FINISHED and told(tmp_path / "run") == told(folder / "run")


def test_a_killed_study_goes_on_and_ends_the_same(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = finished
    code = (
        "import sys; from pathlib import Path; from coevo.bench.study import run_study; "
        "from tests.bench.made import scripted_study; folder = Path(sys.argv[1]); "
        "run_study(scripted_study(folder, ledger=sys.argv[3]), Path(sys.argv[2]), notify=lambda s: print(s, flush=True))"
    )
    ledger = str(tmp_path / "ledger")
    root = Path(__file__).parent.parent.parent
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(tmp_path / "run"), ledger],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    opened = 0
    for line in child.stdout:
        opened += "opened once by this study" in line
        if opened == 3:  # In the midst of a test split.
            time.sleep(0.1)
            os.killpg(child.pid, signal.SIGKILL)
            break
    child.wait(30)
    child.stdout.close()
    with Run.open(tmp_path / "run", write=False) as run:
        done = set(results_of(run))
    assert 0 < sum(key.startswith("test/") for key in done) < 12
    config = scripted_study(folder, ledger=ledger)
    assert run_study(config, tmp_path / "run").ended is Ended.FINISHED
    assert told(tmp_path / "run") == told(folder / "run")
    book = Holdout(Path(ledger), study="any")
    events = [(a.arm, a.seed, a.suite, a.event) for a in book.accesses()]
    assert len(events) == len(set(events)) == 24  # Opened once and closed once, the killed one too.


def test_tasks_that_changed_since_the_beginning_are_noticed(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = finished
    from tests.bench.test_suites import put

    suite = {
        "name": "own",
        "test": {"id": [put(tmp_path, "a"), put(tmp_path, "b", answer="return x + 3")]},
        "unseen": [],
    }
    config = scripted_study(folder, suite=suite, ledger=str(tmp_path / "ledger"), probe={"states": 0}, select=1)
    assert run_study(config, tmp_path / "run", minutes=1e-6).ended is Ended.MINUTES
    with Run.open(tmp_path / "run", write=False) as run:
        assert facts_of(run)["suite"]["id"]["tasks"] == 2
    (tmp_path / "b" / "tests.jsonl").write_text('{"split": "hidden", "args": [1], "expected": 9}\n')
    with pytest.raises(ConfigError, match="tasks or weights have changed"):
        run_study(config, tmp_path / "run")


def test_a_model_that_is_down_ends_the_study_with_its_error_and_nothing_is_recorded(tmp_path: Path) -> None:
    config = scripted_study(tmp_path)
    write_script(tmp_path / "replies.jsonl", [Scripted("", error="no route to host")])
    with pytest.raises(ModelError, match=r"search, seed 0, task mini-\S+: .*no route to host"):
        run_study(config, tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as run:
        assert results_of(run) == {}


def test_a_run_of_another_kind_is_no_study(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", kind="evolve", config={}):
        pass
    with pytest.raises(StoreError, match="of kind 'evolve', not a study"):
        run_study(scripted_study(tmp_path), tmp_path / "run")


def test_batches_do_not_change_what_a_scripted_model_says(finished: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = finished
    good = scripted_study(folder).model
    config = scripted_study(folder, model=f"{good},batch=16", ledger=str(tmp_path / "ledger"), arms=["search"], seeds=1)
    assert run_study(config, tmp_path / "run").ended is Ended.FINISHED
    mine, theirs = told(tmp_path / "run"), told(folder / "run")
    assert mine["test/ood/search/0"] == theirs["test/ood/search/0"]
    assert GOOD.format(n=1) in (folder / "replies.jsonl").read_text().encode().decode("unicode_escape")
