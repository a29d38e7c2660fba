"""Real labs of trainer toy, from settings to report: killed anywhere, they end with the same events."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coevo.errors import ConfigError, UsageError
from coevo.gate.deciding import next_step
from coevo.gate.types import Ask, Judgement, Seen, Verdict
from coevo.lab.driver import Ended, Outcome, approve, calibrate_lab, new_lab, read_lab, run_lab
from coevo.lab.ledger import Ledger
from coevo.lab.proposals import proposal_dict
from coevo.lab.types import BranchState, Change, DiagnosticProposal, Family
from coevo.runs import Run
from coevo.training.opening import Setup
from tests.lab.small_lab import Plan, config, digest, kinds, proposal

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def lab(path: Path, agent: Plan, *, gate=None, actions: int | None = None, **changes) -> Outcome:
    """A new lab, run to its end (or so many actions)."""
    new_lab(config(**changes), path)
    return run_lab(path, agent=agent, gate=gate, actions=actions)


def says(verdict: Verdict, *, looks: int = 1):
    """A gate that looks so many times and then always says the same; control branches are inconclusive."""

    def gate(settings, seen: Seen) -> Ask | Judgement:
        if len(seen.looks) < looks:
            number = len(seen.looks) + 1
            return Ask("gate", number, tuple(seen.tasks)[:12], 1, 1000 + number, "a look")
        said = Verdict.INCONCLUSIVE if seen.child.declared == () else verdict
        return Judgement(said, ("as told",), difference=0.05, low=0.01, high=0.09)

    return gate


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab of one round that was never disturbed, with the real gate."""
    path = tmp_path_factory.mktemp("labs") / "whole"
    assert lab(path, Plan([[proposal()]])).ended is Ended.FINISHED
    return path


def test_a_round_from_start_to_report(whole: Path) -> None:
    settings, ledger = read_lab(whole)
    assert ledger.rounds == 1 and ledger.reported
    assert [b.round for b in ledger.branches.values()] == [0, 1, 1]
    assert all(b.state is BranchState.TRAINED for b in ledger.branches.values())
    assert all(b.judgement is not None for b in list(ledger.branches.values())[1:])
    data = json.loads((whole / "artifacts" / "report.json").read_text())
    assert [row["branch"] for row in data["rounds"]] == ["b1", "b2"]
    assert "coevo lab run" in (whole / "artifacts" / "report.md").read_text()
    with (
        Run.open(whole / "branches" / "b2", write=False) as child,
        Run.open(whole / "branches" / "b1", write=False) as control,
    ):
        one, other = Setup.read(child).recipe, Setup.read(control).recipe
    assert (one.lr, other.lr, one.seed) == (3e-5, 1e-5, other.seed)
    assert settings.seed == 0 and one.seed != 0


def test_closed_and_opened_again_between_any_two_actions(whole: Path, tmp_path: Path) -> None:
    """The same events; and the rows behind a look are read again from the run."""
    seen: list[Seen] = []

    def gate(settings, given: Seen) -> Ask | Judgement:
        seen.append(given)
        return next_step(settings, given)

    path = tmp_path / "steps"
    outcome = lab(path, Plan([[proposal()]]), gate=gate, actions=1)
    while outcome.ended is Ended.PAUSED:
        outcome = run_lab(path, agent=Plan([[proposal()]]), gate=gate, actions=1)
    assert kinds(path) == kinds(whole)
    assert digest(path) == digest(whole)
    looks = [look for given in seen for look in given.looks]
    assert looks
    for look in looks:
        values = [v for some in look.child.values() for v in some if v is not None]
        assert look.child_frame is not None and look.child_frame.rows == len(values) >= 96 * 2
        assert float(look.child_frame.numbers("truth").sum()) == pytest.approx(sum(values))


def test_killed_in_training(tmp_path: Path) -> None:
    script = tmp_path / "plan.jsonl"
    script.write_text(json.dumps([proposal_dict(proposal())]) + "\n")
    paths = [tmp_path / name for name in ("killed", "calm")]
    for path in paths:
        new_lab(config(agent={"kind": "scripted", "script": str(script)}), path)
    run_lab(paths[1])
    kill_when(paths[0], "branches/b1/run.db", "update", 2)
    assert run_lab(paths[0]).ended is Ended.FINISHED
    assert kinds(paths[0]) == kinds(paths[1])
    assert digest(paths[0]) == digest(paths[1])


KILLED_WHEN_PAID = """
import os, signal, sys
from coevo.lab import judging
from coevo.lab.driver import run_lab

measured, left = judging.measured_rows, int(sys.argv[2])

def once(*given, **named):
    global left
    rows = measured(*given, **named)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows

judging.measured_rows = once
run_lab(sys.argv[1])
"""


def test_killed_after_a_measurement_and_before_its_event(tmp_path: Path) -> None:
    """In calibrating and in judging: nothing is booked twice."""
    script = tmp_path / "plan.jsonl"
    script.write_text(json.dumps([proposal_dict(proposal())]) + "\n")
    paths = [tmp_path / name for name in ("killed", "calm")]
    for path in paths:
        new_lab(config(agent={"kind": "scripted", "script": str(script)}, steps=2), path)
    run_lab(paths[1])
    for measurement in (2, 4):  # The second of the calibration's three; the first of a look at the control.
        command = [sys.executable, "-c", KILLED_WHEN_PAID, str(paths[0]), str(measurement)]
        assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    run_lab(paths[0])
    assert kinds(paths[0]) == kinds(paths[1])
    assert digest(paths[0]) == digest(paths[1])


def kill_when(path: Path, database: str, kind: str, count: int) -> None:
    """Run the lab in a process of its own, and kill it as soon as so many events of a kind are in a database."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coevo.cli.main", "lab", "resume", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        while process.poll() is None and events(path / database, kind) < count:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()
    assert events(path / database, kind) >= count


def events(database: Path, kind: str) -> int:
    if not database.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1) as conn:
            return conn.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,)).fetchone()[0]
    except sqlite3.Error:
        return 0


def test_a_promoted_change_is_the_next_parent_and_a_commit(tmp_path: Path) -> None:
    agent = Plan([[proposal()], [proposal({"filter.name": "none"}, family=Family.FILTER)]])
    outcome = lab(tmp_path / "lab", agent, gate=says(Verdict.PROMOTED), budget={"rounds": 2}, calibration=0)
    ledger = outcome.ledger
    assert [b.parent for b in ledger.branches.values()] == [None, "b0", "b0", "b2", "b2"]
    assert ledger.parent == "b4" and ledger.failures == 0
    assert agent.briefs[1].recipe["lr"] == 3e-5 and agent.briefs[1].parent.name == "b2"
    assert [len(b.past) for b in agent.briefs] == [1, 3]
    log = subprocess.run(
        ["git", "-C", str(tmp_path / "lab" / "harness"), "log", "--format=%s"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "b4: filter.name = 'none'" in log.stdout and "b2: lr = 3e-05" in log.stdout
    report = (tmp_path / "lab" / "artifacts" / "report.md").read_text()
    assert "not calibrated" in report and "Final branch b4 against the start b0" in report
    assert ledger.predictions and all(true for _, true in ledger.predictions)


def test_what_comes_back_is_told_and_asked_for_again(tmp_path: Path) -> None:
    bad = proposal({"seed": 4})
    agent = Plan([[bad]])
    outcome = lab(tmp_path / "lab", agent, gate=says(Verdict.REJECTED))
    assert len(agent.briefs) == 2 and any("seed" in why for why in agent.briefs[1].returned)
    assert [b.proposal.family for b in outcome.ledger.branches.values() if b.proposal] == [Family.CONTINUE]
    assert outcome.ledger.failures == 1


def test_a_person_is_asked_and_can_say_no(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    outcome = lab(path, Plan([[proposal()]]), gate=says(Verdict.PROMOTED), approve="all", calibration=0)
    assert (outcome.ended, outcome.exit_code) == (Ended.WAITING, 4)
    assert "design" in outcome.message
    stages = []
    while outcome.ended is Ended.WAITING:
        stages.append(approve(path, yes=len(stages) < 2))
        outcome = run_lab(path, agent=Plan([[proposal()]]), gate=says(Verdict.PROMOTED))
    assert stages == ["design", "launch", "promote"]
    assert outcome.ledger.parent == "b0"
    with pytest.raises(UsageError, match="waits for no approval"):
        approve(path)


def test_a_change_that_cannot_be_trained_is_unmeasured_and_the_lab_goes_on(tmp_path: Path) -> None:
    agent = Plan([[proposal({"episode.temperature": 2.0}, family=Family.EPISODE)]])
    path = tmp_path / "lab"
    new_lab(config(recipe={"toy": {"unmeasured": 0.99}}, calibration=0), path)
    outcome = run_lab(path, agent=agent)
    assert outcome.ledger.branches["b0"].state is BranchState.FAILED
    assert "cannot be trained" in outcome.message


def test_steps_are_reserved_before_a_round(tmp_path: Path) -> None:
    outcome = lab(
        tmp_path / "lab",
        Plan([[proposal()]] * 9),
        gate=says(Verdict.REJECTED),
        budget={"rounds": 9, "steps": 29},
        calibration=0,
    )
    assert outcome.ledger.rounds == 1 and outcome.ledger.steps_spent == 18
    assert "does not pay another round" in outcome.message


def test_a_spent_budget_ends_in_a_report(tmp_path: Path) -> None:
    outcome = lab(
        tmp_path / "lab",
        Plan([[proposal()]]),
        gate=says(Verdict.REJECTED),
        budget={"rounds": 3, "tokens": 100},
        calibration=0,
    )
    assert "tokens" in outcome.ledger.exhausted and outcome.ledger.rounds < 3
    assert (tmp_path / "lab" / "artifacts" / "report.md").exists()


def test_weights_of_a_checkpoint_and_of_two_branches(tmp_path: Path) -> None:
    weights = [
        proposal(change=Change(weights={"from": "b0@3"}), family=Family.CHECKPOINT),
        proposal(change=Change(weights={"a": "b1", "b": "b2", "share": "0.25"}), family=Family.AVERAGE),
    ]
    path = tmp_path / "lab"
    agent = Plan([weights[:1], weights[1:]])
    outcome = lab(path, agent, gate=says(Verdict.REJECTED), budget={"rounds": 2}, calibration=0)
    from coevo.training.toy import start_of, weights_of

    def of(name: str, step: int | None = None, *, start: bool = False):
        with Run.open(path / "branches" / name, write=False) as run:
            return start_of(run) if start else weights_of(run, step)

    assert (of("b2", start=True) == of("b0", 3)).all()
    assert (of("b1", start=True) == of("b0")).all()
    assert of("b4") == pytest.approx(0.75 * of("b1") + 0.25 * of("b2"))
    assert outcome.ledger.steps["b4"] == 0 and outcome.ledger.branches["b4"].state is BranchState.TRAINED


def test_branches_in_processes_of_their_own_come_to_the_same(whole: Path, tmp_path: Path) -> None:
    """Without rungs, too: a branch that stopped at one went on exactly where it was."""
    path = tmp_path / "parallel"
    lab(path, Plan([[proposal()]]), gate=says(Verdict.REJECTED), parallel=2, prune={"rungs": 0}, calibration=0)
    weights = read_lab(path)[1].weights
    assert weights == read_lab(whole)[1].weights and len(weights) == 3


def test_a_gap_brings_a_diagnostic_that_must_prove_itself(tmp_path: Path) -> None:
    new = DiagnosticProposal(
        "new-eye", "Mean reward", "mean reward", "low is bad", warn=0.5, critical=0.1, term="mean(reward)"
    )
    agent = Plan([[proposal()], [proposal({"lr": 2e-5})]], diagnostic=new)
    outcome = lab(tmp_path / "lab", agent, gate=says(Verdict.INVALID), budget={"rounds": 2}, calibration=0)
    (admission,) = outcome.ledger.admissions
    assert not admission["admitted"] and admission["table"]["diagnostic"] == "new-eye"


def test_settings_that_can_promote_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="min_tasks"):
        new_lab(config(gate={"min_tasks": 97}), tmp_path / "lab")
    with pytest.raises(ConfigError, match=r"gate\.alpha = 1e-12 .* 1 in 10,000"):
        new_lab(config(gate={"alpha": 1e-12}), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_a_report_that_a_kill_or_a_person_took_away_is_written_again(whole: Path, tmp_path: Path) -> None:
    """A kill between the last event and the report leaves a lab that is finished and has none."""
    path = tmp_path / os.fsdecode(b"no \xff text\n")  # Nor does an odd name keep it from being written.
    shutil.copytree(whole, path)
    before = json.loads((path / "artifacts" / "report.json").read_text())
    shutil.rmtree(path / "artifacts")
    assert run_lab(path, agent=Plan([])).ended is Ended.FINISHED
    assert (path / "artifacts" / "report.md").exists()
    assert json.loads((path / "artifacts" / "report.json").read_text())["rounds"] == before["rounds"]


def test_calibrate_goes_no_further(tmp_path: Path) -> None:
    new_lab(config(), tmp_path / "lab")
    found = calibrate_lab(tmp_path / "lab")
    ledger: Ledger = read_lab(tmp_path / "lab")[1]
    assert found.trials == 10 and ledger.round is None and ledger.calibration == found
