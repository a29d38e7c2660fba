"""A lab of trainer grpo: a real tiny model is trained, measured on hidden tests and judged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from coevo.errors import ConfigError, GateBlocked
from coevo.gate.deciding import next_step
from coevo.gate.types import Ask, Judgement, Seen, Verdict
from coevo.lab.driver import Ended, new_lab, read_lab, run_lab
from coevo.lab.measuring import open_measurer
from coevo.lab.telling import use_of
from coevo.lab.types import BranchState, Change, Family
from coevo.runs import Run
from coevo.training.opening import Setup
from tests.lab.small_lab import Plan, config, proposal
from tests.training.tiny_policy import program

LEARNS = Change(
    sets={"reward.parts": {"absolute": 1.0, "length": 0.1}, "reward.length_soft": 0.0},
    bundle="shorter replies, from the first token on",
    ablation=("reward.length_soft", "reward.parts"),
)
"""The first recipe pays the tiny policy the same for every reply, so that most changes leave its weights as they are."""

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("torch", reason="training needs torch (extra train)")
    from tests.training.tiny_policy import make_policy, write_task

    root = tmp_path_factory.mktemp("engine")
    digits = {"train": [(4, 7, 2)], "gate": [(1, 5, 5), (3, 3, 9)], "holdout": [(2, 8, 1)], "report": [(6, 0, 4)]}
    tasks = {
        split: [str(write_task(root / f"{split}{i}", some)) for i, some in enumerate(many)]
        for split, many in digits.items()
    }
    recipe = {
        "trainer": "grpo",
        "base": str(make_policy(root / "policy", steps=15)),
        "groups": 2,
        "group_size": 4,
        "lr": 3e-3,
        "episode": {"max_tokens": 40},
        "reward": {"parts": {"absolute": 1.0}},
        "pool": "inline",
        "engine": {"device": "cpu"},
    }
    return {
        "recipe": recipe,
        "tasks": tasks,
        "steps": 2,
        "calibration": 0,
        "budget": {"rounds": 2},
        "gate": {"min_tasks": 2, "alpha": 0.3, "samples": 2, "holdout": False},
        "prune": {"rungs": 1},
    }


def test_branches_go_on_from_the_parents_checkpoint_and_are_measured_on_hidden_tests(settings, tmp_path: Path) -> None:
    seen: list[Seen] = []

    def gate(found, given: Seen) -> Ask | Judgement:
        seen.append(given)
        if not given.looks:
            return Ask("gate", 1, tuple(given.tasks), 2, 5, "a look")
        return Judgement(Verdict.REJECTED, ("as told",), difference=0.0, low=-0.1, high=0.1)

    plan = [
        proposal(change=LEARNS, family=Family.REWARD),
        proposal(change=Change(weights={"a": "b0", "b": "b2"}), family=Family.AVERAGE),
    ]
    path = tmp_path / "lab"
    new_lab(config(**settings), path)
    outcome = run_lab(path, agent=Plan([plan[:1], plan[1:]]), gate=gate)
    assert outcome.ended is Ended.FINISHED
    ledger = read_lab(path)[1]
    assert {b.state for b in ledger.branches.values()} == {BranchState.TRAINED}, ledger.trouble
    with Run.open(path / "branches" / "b2", write=False) as run:
        setup = Setup.read(run)
        assert (
            setup.parent is not None
            and setup.parent.step == 2
            and setup.recipe.steps == 4
            and setup.recipe.reward.length_soft == 0
        )
    child = next(given for given in seen if given.child.name == "b2" and given.looks)
    assert child.child.origins == (ledger.weights["b0"],) == (child.child.base_weights,)
    look = child.looks[0]
    assert set(look.child) == {"gate0", "gate1"} and all(len(values) == 2 for values in look.child.values())
    rows = look.child_frame
    assert rows is not None and rows.has("truth") and rows.has("reward")
    assert ledger.branches["b2"].cost["tokens"] > 0
    for name in ("b2", "b4"):  # As the report says that one uses them; the average has trained nothing.
        said: dict[str, Any] = {}
        use = use_of(path, name, "grpo")
        exec(use["python"], said)
        assert said["model"].num_parameters() > 0 and use["search"].startswith("coevo evolve TASK --model local:")
    average = next(given for given in seen if given.child.name == "b4")
    assert average.child.base_weights in average.child.origins


def test_splits_may_not_share_a_task(settings, tmp_path: Path) -> None:
    tasks = settings["tasks"]
    with pytest.raises((GateBlocked, ConfigError), match="gate0"):
        new_lab(config(**{**settings, "tasks": {**tasks, "holdout": tasks["gate"]}}), tmp_path / "lab")
    with pytest.raises(ConfigError, match="names no task"):
        new_lab(config(**{**settings, "tasks": {**tasks, "report": []}}), tmp_path / "lab")


def test_replies_that_nobody_bounded_are_measured_as_they_were_trained(settings, tmp_path: Path) -> None:
    """The default bound is longer than the model's context: training fits it, and so must the judge, in a later sitting, too."""
    recipe = {name: value for name, value in settings["recipe"].items() if name != "episode"}
    path = tmp_path / "lab"
    new_lab(config(**{**settings, "recipe": recipe, "steps": 1}), path)
    run_lab(path, actions=2)
    stored, ledger = read_lab(path)
    assert ledger.steps["b0"] == 1
    with open_measurer(stored) as measurer:
        rows = measurer.measure(path / "branches" / "b0", split="gate", tasks=measurer.tasks("gate"), samples=2, seed=3)
    assert len(rows) == 4 and not any(row["unmeasured_reason"] for row in rows)
    assert max(row["tokens"] for row in rows) <= 256


def test_a_renamed_copy_of_a_gate_task_is_not_trained_on(settings, tmp_path: Path) -> None:
    """Another name and another text, and the same hidden tests: whoever learns it knows the answers."""
    copy = tmp_path / "other_name"
    shutil.copytree(settings["tasks"]["gate"][0], copy)
    text = (copy / "task.yaml").read_text()
    (copy / "task.yaml").write_text(text.replace("gate0", "other_name") + "\ntags: [other]\n")
    with pytest.raises((GateBlocked, ConfigError), match="other_name"):
        new_lab(config(**{**settings, "tasks": {**settings["tasks"], "train": [str(copy)]}}), tmp_path / "lab")


@pytest.mark.parametrize("where", ["statement", "start"])
def test_a_training_task_that_shows_an_answer_is_not_trained_on(settings, tmp_path: Path, where: str) -> None:
    gate = Path(shutil.copytree(settings["tasks"]["gate"][0], tmp_path / "gate0"))
    train = Path(shutil.copytree(settings["tasks"]["train"][0], tmp_path / "shows"))
    answer = program((1, 5, 5))
    (gate / "reference.py").write_text(answer)
    if where == "statement":
        _edit(train, name="shows", statement=f"Such a thing:\n{answer}\nbut with other numbers.")
    else:
        _edit(train, name="shows")
        (train / "program.py").write_text(f"# by the way\n{answer}")
    tasks = {**settings["tasks"], "train": [str(train)], "gate": [str(gate), settings["tasks"]["gate"][1]]}
    with pytest.raises(
        GateBlocked, match=r"1 of \d+ tasks of tasks\.train show the answer .*: shows \(of gate0\)\. Take them"
    ):
        new_lab(config(**{**settings, "tasks": tasks}), tmp_path / "lab")


def _edit(task: Path, **changes: str) -> None:
    known = yaml.safe_load((task / "task.yaml").read_text())
    (task / "task.yaml").write_text(yaml.safe_dump({**known, **changes}))


def test_gate_tasks_edited_while_the_lab_is_open(settings, tmp_path: Path) -> None:
    """A judge that is made easier between two looks is no longer the one that was sealed."""
    path, tasks = tmp_path / "lab", {}
    for split, folders in settings["tasks"].items():
        tasks[split] = [str(shutil.copytree(folder, tmp_path / split / Path(folder).name)) for folder in folders]

    def gate(found, given: Seen) -> Ask | Judgement:
        said = next_step(found, given)
        if isinstance(said, Judgement) or given.child.name != "b2":
            return said if given.child.name == "b2" else Judgement(Verdict.REJECTED, ("as told",), difference=0.0)
        for file in (tmp_path / "gate" / "gate0").glob("tests*"):
            file.write_text(file.read_text() + "\n")
        return said

    new_lab(config(**{**settings, "tasks": tasks, "budget": {"rounds": 1}}), path)
    outcome = run_lab(path, agent=Plan([[proposal(change=LEARNS, family=Family.REWARD)]]), gate=gate)
    child = outcome.ledger.branches["b2"].judgement
    assert child is not None and child.verdict is Verdict.INVALID
    assert any("judge" in reason for reason in child.reasons), child.reasons
