"""A lab that ended for lack of budget goes on when it is given more; what was sealed stays so, also under a version that has more settings."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from coevo.cli.main import app
from coevo.errors import CoevoError, ConfigError, GateBlocked, UsageError
from coevo.gate.types import Verdict
from coevo.lab.driver import Ended, new_lab, read_lab, run_lab
from coevo.lab.interventions import sealed
from coevo.lab.reading import give
from coevo.runs import Run
from tests.lab.small_lab import Plan, config, kinds, proposal
from tests.lab.test_driver import lab, says

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")

PLAN = [[proposal()], [proposal({"filter.name": "none"})]]


def verdicts(path: Path) -> list[tuple[str, str]]:
    ledger = read_lab(path)[1]
    return [(b.name, str(b.judgement.verdict)) for b in ledger.branches.values() if b.judgement]


def test_a_lab_that_made_its_rounds_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    gate = says(Verdict.PROMOTED)
    small = {"calibration": 0, "steps": 1}
    assert lab(path, Plan(PLAN), gate=gate, **small).ledger.rounds == 1
    with pytest.raises(UsageError, match=r"would not go on: 1 rounds of budget\.rounds = 1"):
        give(path, {"steps": 1000})
    give(path, {"rounds": 2})
    assert read_lab(path)[0].budget.rounds == 2
    outcome = run_lab(path, agent=Plan(PLAN), gate=gate)
    assert (outcome.ended, outcome.ledger.rounds, outcome.ledger.reports) == (Ended.FINISHED, 2, 2)
    assert "It is measurement 2 of this split" in (path / "artifacts" / "report.md").read_text()
    assert run_lab(path, agent=Plan(PLAN), gate=gate).ledger.reports == 2
    with Run.open(path, write=False) as run:
        samples = [event.payload["samples"]["b0"] for event in run.events(kinds=("reported",))]
    assert samples[0] != samples[1]  # Fresh ones, not those that a person has seen.


@pytest.mark.parametrize(("name", "bound"), [("tokens", 400), ("steps", 5)])
def test_a_spent_budget_given_more_comes_to_the_same(tmp_path: Path, name: str, bound: int) -> None:
    """In the midst of a round, too: branches go on from their own steps."""
    given, calm = tmp_path / "given", tmp_path / "calm"
    first = lab(given, Plan(PLAN), gate=says(Verdict.REJECTED), calibration=0, steps=2, budget={name: bound})
    assert first.ended is Ended.FINISHED and first.ledger.rounds == 0
    with pytest.raises(UsageError, match="would not go on"):
        give(given, {name: bound - 1})
    assert read_lab(given)[1] == first.ledger
    give(given, {name: 10**6})
    run_lab(given, agent=Plan(PLAN), gate=says(Verdict.REJECTED))
    lab(calm, Plan(PLAN), gate=says(Verdict.REJECTED), calibration=0, steps=2)
    own = [kind for kind in kinds(given) if kind not in ("given", "exhausted", "reported")]
    assert own == [kind for kind in kinds(calm) if kind != "reported"]
    assert read_lab(given)[1].weights == read_lab(calm)[1].weights
    assert verdicts(given) == verdicts(calm)


def test_by_command(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    new_lab(config(steps=1, calibration=0), path)
    run_lab(path, agent=Plan([]))

    def said(*words: str) -> str:
        error = CliRunner().invoke(app, list(words)).exception
        assert isinstance(error, CoevoError) and error.exit_code == 2, error
        return str(error)

    assert "gate among them" in said("lab", "resume", str(path), "--set", "gate.alpha=0.2")
    assert "unknown setting 'round'" in said("lab", "resume", str(path), "--set", "budget.round=4")
    assert "counts no evaluations" in said("resume", str(path), "--budget", "evaluations=10")
    file = tmp_path / "same.yaml"
    file.write_text(yaml.safe_dump(config(steps=1, calibration=0).model_dump(mode="json")))
    assert CliRunner().invoke(app, ["lab", "run", str(path), "--config", str(file)]).exit_code == 0
    assert "other values there: steps." in said("lab", "run", str(path), "--config", str(file), "--set", "steps=7")
    done = CliRunner().invoke(app, ["lab", "resume", str(path), "--set", "budget.rounds=2", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["rounds"] == 2
    assert "would not go on" in said("resume", str(path), "--budget", "minutes=90")


def without_setting(path: Path) -> None:
    """The lab as a version made it that did not know gate.holdout_most, recipe.toy.levels, budget.usd and prune."""
    with sqlite3.connect(path / "run.db") as connection:
        connection.execute("DROP TRIGGER events_are_not_changed")
        (text,) = connection.execute("SELECT value FROM meta WHERE key = 'config'").fetchone()
        old = json.loads(text)
        for *parents, name in (("gate", "holdout_most"), ("recipe", "toy", "levels"), ("budget", "usd"), ("prune",)):
            node = old
            for parent in parents:
                node = node[parent]
            del node[name]
        connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (json.dumps(old),))
        row, text = connection.execute("SELECT rowid, payload FROM events WHERE kind = 'lab'").fetchone()
        data = json.loads(text)
        data["sealed"] |= sealed(old, {})
        connection.execute("UPDATE events SET payload = ? WHERE rowid = ?", (json.dumps(data), row))
    (path / "run.yaml").write_text(yaml.safe_dump(old))


def test_a_lab_of_a_version_with_fewer_settings_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    new_lab(config(steps=1, calibration=0), path)
    without_setting(path)
    outcome = run_lab(path, agent=Plan([[proposal()]]))
    assert outcome.ended is Ended.FINISHED
    child = outcome.ledger.branches["b2"]
    assert child.judgement is not None and child.judgement.verdict is not Verdict.INVALID


def test_settings_in_the_database_that_were_edited_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    new_lab(config(steps=1, calibration=0), path)
    with sqlite3.connect(path / "run.db") as connection:
        (text,) = connection.execute("SELECT value FROM meta WHERE key = 'config'").fetchone()
        edited = json.loads(text)
        edited["gate"]["alpha"] = 0.4
        connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (json.dumps(edited),))
    (path / "run.yaml").unlink()
    with pytest.raises(GateBlocked, match="setting `gate`"):
        run_lab(path, agent=Plan([]))


def test_a_budget_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    new_lab(config(steps=1, calibration=0), path)
    for bad in ({"rounds": 0}, {"usd": -1.0}, {"seeds": 3}, {"steps": "many"}):
        with pytest.raises(ConfigError, match=r"^budget: "):
            give(path, bad)
