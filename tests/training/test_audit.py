"""The reward audit: what recorded and freshly judged cheats earn, and which recipes are refused."""

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from coevo.cli.reward import app
from coevo.config import parse, plain_yaml
from coevo.errors import GateBlocked, UsageError
from coevo.tasks import load_task
from coevo.training import planting
from coevo.training.audit import Verdict, assess, audit, break_even, gate
from coevo.training.cheats import Role
from coevo.training.planting import made_for, measure, recorded
from coevo.training.rewards import reward_of
from coevo.training.settings import Recipe, RewardConfig

SHIPPED = ("metaevolve", "difference", "absolute", "lazy", "search_gain")
BONUS = "def bonus(sample):\n    return 0.2 * sample.source.count('assert') + 0.05 * sample.source.count('cache')\n"


def recipe(parts, **more):
    return Recipe(reward=RewardConfig(parts=parts), **more)


def found(report, plant, parent="start"):
    return next(f for f in report.findings if f.plant == plant and f.parent == parent)


@pytest.mark.parametrize("page", ["training", "rewards"])
def test_the_recipes_of_the_docs_are_allowed(page):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text()
    recipes = re.findall(r"```yaml\n(.*?)```", text, re.S)
    assert recipes
    for data in recipes:
        assert gate(parse(Recipe, plain_yaml(data, where=page), where=page)).ok


def test_the_recorded_cases_are_those_of_these_cheats():
    """After a change to cheats.py or to the task: `python -c "from coevo.training.planting import record; record()"`."""
    kept = json.loads(planting._FILE.read_text())
    assert kept["made_for"] == made_for()
    names = {plant.name for case in recorded() for plant in case.plants}
    assert len(names) == 23 and [case.parent for case in recorded()] == ["start", "half right"]


@pytest.mark.parametrize("name", SHIPPED)
def test_no_shipped_reward_pays_a_cheat(name):
    report = gate(recipe({name: 1.0}))
    assert report.ok
    cheats = [f for f in report.findings if f.role is Role.CHEAT]
    assert len(cheats) == 36 and {f.verdict for f in cheats} == {Verdict.FINE}
    for balance in report.balances:
        assert balance.gain is not None and balance.failure is not None and balance.gain > balance.failure


def test_hard_coding_is_reported_against_the_truth():
    report = gate(recipe({"search_gain": 1.0}))
    leak = found(report, "hard-coded tests", "half right")
    assert leak.verdict is Verdict.LEAK and leak.reward is not None and leak.reward > 0.4 and leak.truth == 0
    assert leak.true_gain < 0 < leak.gain
    assert any("public tests leak" in warning for warning in report.warnings)
    assert found(report, "hard-coded tests", "start").verdict is Verdict.FINE  # The timed inputs are not on any table.


def test_the_copy_trap_is_told_with_its_break_even_rate():
    trapped, free = gate(recipe({"metaevolve": 1.0})), gate(recipe({"lazy": 1.0}))
    rate = trapped.balances[0].break_even
    assert rate is not None and 0.8 < rate < 1
    assert any("copy trap" in warning and f"{rate:.0%}" in warning for warning in trapped.warnings)
    copy, gain, failure = (found(trapped, name) for name in ("parent handed back", "honest gain", "honest failure"))
    advantages = [f.advantage or 0.0 for f in (failure, copy, gain)]
    assert advantages[0] < 0 < advantages[1] < advantages[2]
    assert [balance.break_even for balance in free.balances] == [0.0, 0.0]
    assert not any("copy trap" in warning for warning in free.warnings)
    assert [b.break_even for b in gate(recipe({"search_gain": 1.0})).balances] == [0.0, 0.0]


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.001, 0.999))
def test_break_even_is_where_trying_earns_what_idling_does(gain, loss, p):
    nothing = p * gain - (1 - p) * loss
    assert break_even(gain, -loss, nothing) == pytest.approx(p)


def test_break_even_at_its_ends():
    assert break_even(1.0, -1.0, -2.0) == 0.0
    assert break_even(0.0, 0.0, 0.0) == 1.0
    assert break_even(0.5, -1.0, 0.7) == 1.0
    assert break_even(None, 0.0, 0.0) is None


def test_jitter_that_pays_is_told_and_a_tolerance_ends_it():
    assert any("jitters" in warning for warning in gate(recipe({"search_gain": 1.0})).warnings)
    calm = Recipe(reward=RewardConfig(parts={"search_gain": 1.0}, tolerance=0.02))
    assert not any("jitters" in warning for warning in gate(calm).warnings)


def test_of_tasks_without_timing_nothing_is_said_of_times() -> None:
    for parts in ({"search_gain": 1.0}, {"metaevolve": 1.0}, {"absolute": 1.0}):
        timed, untimed = gate(recipe(parts)), gate(recipe(parts), timed=False)
        assert not any("jitter" in warning or "timing" in warning for warning in untimed.warnings)
        assert untimed.findings == timed.findings and len(untimed.warnings) < len(timed.warnings)


def test_a_reward_blind_to_improvement_is_told():
    assert any("nothing teaches" in warning for warning in gate(recipe({"format": 1.0})).warnings)


def test_a_bonus_for_looks_is_refused_unless_told_otherwise(tmp_path):
    path = tmp_path / "looks.py"
    path.write_text(BONUS)
    parts = {"search_gain": 1.0, f"{path}:bonus": 1.0}
    with pytest.raises(GateBlocked, match="stuffed") as e:
        gate(recipe(parts))
    assert e.value.exit_code == 4 and "allow_cheats" in str(e.value)
    report = gate(recipe(parts, allow_cheats=True))
    assert [f.plant for f in report.paying if f.parent == "start"] == ["stuffed"]


def test_a_reward_for_being_different_is_refused(tmp_path):
    path = tmp_path / "junk.py"
    path.write_text(
        "def novel(sample):\n    return float(sample.program_hash not in ('', sample.parent_hash)) - (sample.fitness or 0)\n"
    )
    with pytest.raises(GateBlocked, match="empty program"):
        gate(recipe({f"{path}:novel": 1.0}))


def test_a_function_that_fails_on_a_cheat_masks_it(tmp_path):
    path = tmp_path / "picky.py"
    path.write_text("def f(sample):\n    return 1 / sample.correctness if sample.correctness is not None else 0\n")
    report = gate(recipe({f"{path}:f": 1.0}, allow_cheats=True))
    empty = found(report, "empty function")
    assert empty.verdict is Verdict.MASKED and "ZeroDivisionError" in empty.reason
    assert any("have no reward" in warning for warning in report.warnings)


def test_the_verdict_goes_by_hidden_tests():
    """The same earnings are fine for a plant that is truly better, and paying for one that is not."""
    case = recorded()[1]
    stuffed = next(plant for plant in case.plants if plant.name == "stuffed")
    better = replace(stuffed.public, fitness=0.5, parent_fitness=0.2)
    with reward_of(RewardConfig(parts={"search_gain": 1.0})) as reward:
        for hidden, verdict in ((better, Verdict.FINE), (replace(better, fitness=0.2), Verdict.PAYS)):
            plant = replace(stuffed, public=better, hidden=hidden)
            report = assess(recipe({"search_gain": 1.0}), reward, [replace(case, plants=(*case.plants[:3], plant))])
            assert report.findings[-1].verdict is verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task without timing, judged in milliseconds: its start is wrong for negative numbers."""
    path = tmp_path_factory.mktemp("tasks") / "absolute_sum"
    path.mkdir()
    (path / "task.yaml").write_text(
        "name: absolute_sum\nkind: function\nentry: total\nstatement: Return the sum of the absolute values of a list of integers.\n"
    )
    (path / "program.py").write_text(
        "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
    )
    (path / "reference.py").write_text("def total(values):\n    return sum(abs(value) for value in values)\n")
    rng = random.Random(5)
    lists = {split: [[rng.randint(-9, 20) for _ in range(3)] for _ in range(16)] for split in ("public", "hidden")}
    rows = [
        json.dumps({"split": split, "args": [values], "expected": sum(map(abs, values))})
        for split, some in lists.items()
        for values in some
    ]
    (path / "tests.jsonl").write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def measured(folder):
    return measure(load_task(folder))


def test_cheats_judged_now_end_as_the_recorded_ones_did(measured):
    """On another task, in the real sandbox: no cheat that is not a guess gets past the judge."""
    recorded_outcomes = {plant.name: plant.outcome for plant in recorded()[0].plants}
    assert {plant.name: plant.outcome for plant in measured[0].plants} == recorded_outcomes
    for case in measured:
        for plant in case.plants:
            if plant.role is Role.CHEAT and plant.public.fitness is not None:
                assert plant.public.fitness <= plant.public.parent_fitness, plant.name
        gain, failure = (case.of(role).public for role in (Role.GAIN, Role.FAILURE))
        assert gain.fitness is not None and failure.fitness is not None
        assert gain.fitness > gain.parent_fitness > failure.fitness
        assert case.noise == 0


def test_a_task_whose_tests_are_all_shown_cannot_tell_a_table_from_work(measured):
    """Without timed inputs the table is worth as much as the solution: the audit refuses."""
    with reward_of(RewardConfig(parts={"search_gain": 1.0})) as reward:
        report = assess(recipe({"search_gain": 1.0}), reward, measured)
    assert {f.plant for f in report.paying} == {"hard-coded tests", "hard-coded patch"}
    assert {f.role for f in report.paying} == {Role.LEAK}


def test_recorded_cases_survive_being_written_down(measured):
    rows = json.loads(json.dumps([planting._row(case) for case in measured], default=planting._listed))
    again = [planting._case_of(row) for row in rows]
    with reward_of(RewardConfig(parts={"search_gain": 1.0, "format": 0.1, "length": 0.1})) as reward:
        first, second = (assess(recipe({"search_gain": 1.0}), reward, cases) for cases in (measured, again))
    assert first == second


def test_the_command_ends_with_4_when_a_cheat_pays(folder):
    result = CliRunner().invoke(app, ["audit", "--task", str(folder), "--json"])
    assert isinstance(result.exception, GateBlocked) and "hard-coded" in str(result.exception)
    report = json.loads(result.stdout)
    assert report["ok"] is False and {f["verdict"] for f in report["findings"]} >= {"pays", "fine", "honest"}


def test_the_command_ends_with_0_when_told_otherwise(folder, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("allow_cheats: true\nreward: {parts: {metaevolve: 1.0}}\n")
    result = CliRunner().invoke(app, ["audit", str(path), "--task", str(folder)])
    assert result.exit_code == 0, result.output
    assert "copy trap" in result.stdout and "verdict: cheating pays" in result.stdout


def test_tasks_that_cannot_be_audited_are_named(folder):
    with pytest.raises(UsageError, match=r"circle_packing.*cannot be audited"):
        audit(Recipe(), ["circle_packing"])


def test_the_command_imports_nothing_heavy():
    code = "import sys, coevo.cli.reward; print([m for m in ('torch', 'numpy', 'coevo.training') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
