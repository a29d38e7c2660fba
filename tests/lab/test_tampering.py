"""Somebody reaches into a lab's folder between training and the gate: whatever the scores then say, nothing false is promoted."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from coevo.gate.deciding import next_step
from coevo.gate.types import Ask, Judgement, Seen, Status, Verdict
from coevo.lab.driver import Ended, new_lab, read_lab, run_lab
from coevo.lab.rounds import Judge, next_action
from coevo.lab.types import Branch
from tests.lab.small_lab import Plan, config, proposal

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def judged_after(path: Path, edit: Callable[[Path], object], *, of: str = "b1") -> Branch:
    """The child b2 of a small lab into whose folder `edit` reached when branch `of` was about to be judged (b1 is the control)."""
    new_lab(config(calibration=0), path)
    agent = Plan([[proposal()]])
    while not (isinstance(action := next_action(*reversed(read_lab(path))), Judge) and action.branch == of):
        run_lab(path, agent=agent, actions=1)
    edit(path)
    assert run_lab(path, agent=agent).ended is Ended.FINISHED
    return read_lab(path)[1].branches["b2"]


def failed(branch: Branch) -> set[str]:
    assert branch.judgement is not None
    return {check.name for check in branch.judgement.checks if check.status is Status.FAILED}


def execute(database: Path, *statements: str) -> None:
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)


def better_weights(path: Path, name: str, factor: float) -> None:
    """The last weights of a toy branch, multiplied."""
    with sqlite3.connect(path / "branches" / name / "run.db") as connection:
        connection.execute("DROP TRIGGER events_are_not_changed")
        row, text = connection.execute(
            "SELECT rowid, payload FROM events WHERE kind = 'update' ORDER BY rowid DESC LIMIT 1"
        ).fetchone()
        data = json.loads(text)
        data["weights"] = [[w * factor for w in line] for line in data["weights"]]
        connection.execute("UPDATE events SET payload = ? WHERE rowid = ?", (json.dumps(data), row))


def test_weights_exchanged_between_training_and_the_gate(tmp_path: Path) -> None:
    found = judged_after(tmp_path / "lab", lambda path: better_weights(path, "b2", 50.0))
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID
    assert failed(found) == {"integrity.record"}


def test_the_yardstick_made_worse_between_training_and_the_gate(tmp_path: Path) -> None:
    found = judged_after(tmp_path / "lab", lambda path: better_weights(path, "b0", 0.0), of="b2")
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID


def test_rollouts_of_training_taken_out_or_made_prettier(tmp_path: Path) -> None:
    def fewer(path: Path) -> None:
        execute(path / "branches/b2/run.db", "DELETE FROM rollouts WHERE rowid % 3 = 0")

    found = judged_after(tmp_path / "lab", fewer)
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID
    assert failed(found) == {"integrity.record"}


def test_a_seed_written_into_the_training_run(tmp_path: Path) -> None:
    """Beside the declared change, the run says it had another seed than the round's."""

    def reseeded(path: Path) -> None:
        database = path / "branches/b2/run.db"
        with sqlite3.connect(database) as connection:
            for key, value in connection.execute("SELECT key, value FROM meta").fetchall():
                if key == "config":
                    data = json.loads(value)
                    data["recipe"]["seed"] = 137
                    connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (json.dumps(data),))

    found = judged_after(tmp_path / "lab", reseeded)
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID


def test_the_recipe_in_the_worktree_is_not_what_is_trained(tmp_path: Path) -> None:
    """An edit by hand of a branch's worktree, or of main, after its launch: the commit counts."""
    plain, edited = tmp_path / "plain", tmp_path / "edited"
    agent = Plan([[proposal()]])
    new_lab(config(calibration=0), plain)
    run_lab(plain, agent=agent)
    new_lab(config(calibration=0), edited)
    while "b2" not in read_lab(edited)[1].branches:
        run_lab(edited, agent=agent, actions=1)
    run_lab(edited, agent=agent, actions=1)
    for folder in (edited / "worktrees").iterdir():
        (folder / "recipe.yaml").write_text("trainer: toy\nlr: 1.0\n")
    (edited / "harness" / "recipe.yaml").write_text("trainer: toy\nlr: 1.0\n")
    run_lab(edited, agent=agent)
    assert read_lab(edited)[1].weights == read_lab(plain)[1].weights


def test_rows_of_a_look_that_were_edited(tmp_path: Path) -> None:
    """A look's rows lie in the lab's own run; without those that failed, they no longer bear out its numbers."""
    new_lab(config(calibration=0), tmp_path / "lab")
    agent = Plan([[proposal()]])
    path = tmp_path / "lab"
    while (
        "b2" not in (ledger := read_lab(path)[1]).branches or ledger.round is None or not ledger.round.looks.get("b2")
    ):
        run_lab(path, agent=agent, actions=1)
    execute(
        path / "run.db", "DELETE FROM rollouts WHERE rowid IN (SELECT rowid FROM rollouts ORDER BY rowid DESC LIMIT 3)"
    )
    run_lab(path, agent=agent)
    found = read_lab(path)[1].branches["b2"]
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID
    assert "integrity.samples" in failed(found)


def test_a_change_that_does_nothing_is_no_change(tmp_path: Path) -> None:
    """Warm-up of no steps' effect, a clip that never clips: the weights come out the same, so there is nothing to be lucky with."""
    seen: list[Seen] = []

    def gate(settings, given: Seen) -> Ask | Judgement:
        seen.append(given)
        return next_step(settings, given)

    new_lab(config(calibration=0), tmp_path / "lab")
    idle = proposal({"max_kl": 1e9})
    outcome = run_lab(tmp_path / "lab", agent=Plan([[idle]]), gate=gate)
    child = outcome.ledger.branches["b2"]
    assert outcome.ledger.weights["b1"] == outcome.ledger.weights["b2"]
    assert child.judgement is not None and child.judgement.verdict is Verdict.REJECTED
    assert "same weights" in child.judgement.reasons[0]
    assert not any(given.child.name == "b2" and given.looks for given in seen)
