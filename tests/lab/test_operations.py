"""What happens around a lab: odd git settings, a harness that was damaged or edited, a judge that is no longer the one it began with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from coevo.errors import GateBlocked, StoreError
from coevo.gate.types import Verdict
from coevo.lab.driver import Ended, new_lab, read_lab, run_lab
from coevo.lab.harness import Harness
from coevo.runs import Run
from tests.lab.small_lab import Plan, config
from tests.lab.test_tampering import failed, judged_after

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")

REWARD = "def f(sample):\n    return 1.0\n"


def write_task(folder: Path, number: int) -> str:
    """A task of one public and one hidden test, whose answer adds `number`."""
    folder.mkdir(parents=True)
    settings = {"name": folder.name, "kind": "function", "statement": f"Add {number}.", "entry": "f"}
    (folder / "task.yaml").write_text(json.dumps(settings))
    (folder / "program.py").write_text("def f(x):\n    return x\n")
    rows = [{"split": split, "args": [x], "expected": x + number} for split, x in (("public", 1), ("hidden", 7))]
    (folder / "tests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


@pytest.fixture
def harness(tmp_path: Path) -> tuple[Harness, str]:
    """A harness with a reward function, and its commit."""
    (tmp_path / "lab").mkdir()
    made = Harness(tmp_path / "lab")
    made.begin({"trainer": "toy"})
    return made, made.commit("main", {"rewards/short.py": REWARD}, "A reward")


def test_a_users_git_settings_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing without a key, hooks that fail, attributes that rewrite files: commits and files are those of a machine without any."""
    plain = Harness(tmp_path / "plain")
    wanted = plain.commit(plain.begin({"trainer": "toy"}), {"rewards/short.py": REWARD}, "A reward")
    home, hooks = tmp_path / "home", tmp_path / "hooks"
    (home / ".config" / "git").mkdir(parents=True)
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nhooksPath = {hooks}\nautocrlf = true\n[commit]\ngpgsign = true\n[gpg]\nprogram = /bin/false\n"
        "[init]\ndefaultBranch = odd\n[user]\nuseConfigOnly = true\n[status]\nshowUntrackedFiles = no\n"
    )
    (home / ".config" / "git" / "attributes").write_text("* text eol=crlf\n")
    (home / ".config" / "git" / "ignore").write_text("*\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    odd = Harness(tmp_path / "odd")
    assert odd.commit(odd.begin({"trainer": "toy"}), {"rewards/short.py": REWARD}, "A reward") == wanted
    assert (odd.checkout(wanted, "b1") / "rewards" / "short.py").read_bytes() == REWARD.encode()
    assert odd.edited(wanted, "b1") == []
    monkeypatch.delenv("HOME")
    assert Harness(tmp_path / "homeless").begin({"trainer": "toy"}) == plain.log()[-1][0]


def test_a_lab_of_another_owner(harness: tuple[Harness, str]) -> None:
    """As on a mounted folder: git refuses those unless it is told that they are safe, and the user's settings are not read."""
    made, commit = harness
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in (made.lab, *made.lab.rglob("*")):
        os.chown(path, 12345, 12345)
    assert made.checkout(commit, "b1").is_dir() and made.recipe(commit) == {"trainer": "toy"}


def test_a_deleted_git_folder_never_leads_to_the_repository_around_it(tmp_path: Path) -> None:
    """A lab often lies inside somebody's repository; a reset there would throw away their work."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    lab = tmp_path / "lab"
    lab.mkdir()
    made = Harness(lab)
    commit = made.begin({"trainer": "toy"})
    (tmp_path / "theirs.txt").write_text("unsaved")
    shutil.rmtree(lab / "harness" / ".git")
    for action in (lambda: made.advance("HEAD"), lambda: made.checkout(commit, "b1"), lambda: made.read(commit, "x")):
        with pytest.raises(StoreError, match=r"not a git repository.*back from a copy"):
            action()
    shutil.rmtree(lab / "harness")
    with pytest.raises(StoreError, match=r"harness is gone.*back from a copy"):
        made.advance(commit)


def test_a_damaged_object_is_told_with_what_to_do(harness: tuple[Harness, str]) -> None:
    made, commit = harness
    for file in (made.path / ".git" / "objects").glob("??/*"):
        file.chmod(0o644)
        file.write_bytes(b"")
    with pytest.raises(StoreError, match=r"fsck.*back from a copy"):
        Harness(made.lab).recipe(commit)


def test_locks_that_a_killed_git_left(harness: tuple[Harness, str]) -> None:
    """Of the index and of a branch, and the one that `git worktree add` holds until its files are there."""
    made, commit = harness
    folder = made.checkout(commit, "b1")
    shutil.rmtree(folder)
    (made.path / ".git" / "worktrees" / "b1" / "locked").write_text("initializing")
    assert (made.checkout(commit, "b1") / "rewards" / "short.py").is_file()
    for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock", "refs/heads/b1.lock"):
        (made.path / ".git" / name).touch()
    made.unlock()
    made.advance(commit)
    made.checkout(commit, "b1")
    assert made.log()[0][0] == commit


def test_edited_reward_files_are_found_and_checked_out_again(harness: tuple[Harness, str]) -> None:
    made, commit = harness
    folder = made.checkout(commit, "b1")
    assert made.edited(commit, "b1") == []
    (folder / "rewards" / "short.py").write_text(REWARD.replace("1.0", "9.0"))
    (folder / "rewards" / "new.py").write_text(REWARD)
    assert made.edited(commit, "b1") == ["rewards/new.py", "rewards/short.py"]
    made.restore(commit, "b1")  # Only of what is gone altogether: an edit is the gate's to see.
    assert len(made.edited(commit, "b1")) == 2
    made.checkout(commit, "b1")
    assert made.edited(commit, "b1") == []
    (folder / "rewards" / "short.py").unlink()  # As a kill in the midst of a checkout leaves it.
    assert made.edited(commit, "b1") == ["rewards/short.py"]
    made.checkout(commit, "b1")
    assert made.edited(commit, "b1") == []
    shutil.rmtree(folder)
    made.restore(commit, "b1")
    assert made.edited(commit, "b1") == []


@pytest.mark.parametrize("arm", ["b2", "b0"])
def test_reward_files_edited_before_the_gate(tmp_path: Path, arm: str) -> None:
    """Of the child, or of the yardstick."""

    def edit(path: Path) -> None:
        folder = path / "worktrees" / arm / "rewards"
        folder.mkdir(parents=True)
        (folder / "short.py").write_text(REWARD)

    found = judged_after(tmp_path / "lab", edit, of="b2")
    assert found.judgement is not None and found.judgement.verdict is Verdict.INVALID
    assert failed(found) == {"integrity.record"}
    assert any("rewards/short.py" in reason for reason in found.judgement.reasons), found.judgement.reasons


def test_a_lab_whose_judge_changed_is_refused_until_the_change_is_undone(tmp_path: Path) -> None:
    names = ("train", "gate", "holdout", "report")
    tasks = {
        split: [write_task(tmp_path / split / f"{split}{n}", 10 * i + n) for n in (1, 2)]
        for i, split in enumerate(names)
    }
    recipe = {"trainer": "grpo", "base": "mini:tiny", "groups": 2, "group_size": 2, "pool": "inline"}
    path = tmp_path / "lab"
    new_lab(config(recipe=recipe, tasks=tasks, gate={"min_tasks": 2, "alpha": 0.3, "holdout_alpha": 0.3}), path)
    file = next(Path(tasks["holdout"][1]).glob("tests*"))
    before = file.read_bytes()
    file.write_bytes(before + b"\n")
    with pytest.raises(GateBlocked, match=r"made with another judge.*tasks\.holdout.*Undo the change") as refused:
        run_lab(path, agent=Plan([]), actions=0)
    assert refused.value.exit_code == 4
    file.write_bytes(before)
    assert run_lab(path, agent=Plan([]), actions=0).ended is Ended.PAUSED


def test_a_lab_of_a_newer_coevo(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    with Run.create(path, kind="lab", config=json.loads(config().model_dump_json())) as run:
        run.append("lab", {"version": 2, "commit": "c", "sealed": {}})
    for action in (read_lab, run_lab):
        with pytest.raises(StoreError, match=r"newer coevo.*update coevo"):
            action(path)


def test_a_deleted_branch_folder_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lab"
    new_lab(config(steps=1), path)
    run_lab(path, agent=Plan([]), actions=2)
    (path / "branches" / "b0").rename(tmp_path / "kept")
    with pytest.raises(StoreError, match=r"branches b0 .*back from a copy"):
        run_lab(path, agent=Plan([]), actions=0)
    assert read_lab(path)[1].steps["b0"] == 1
    (tmp_path / "kept").rename(path / "branches" / "b0")
    assert run_lab(path, agent=Plan([]), actions=0).ended is Ended.PAUSED
