from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from coevo.errors import UsageError
from coevo.lab.harness import RECIPE, Harness, recipe_text, safe_path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def test_commits_are_the_same_again_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in ("a", "b"):
        monkeypatch.setenv("GIT_AUTHOR_NAME", name)
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("HOME", str(tmp_path / f"home-{name}"))
        (tmp_path / f"home-{name}").mkdir()
        (tmp_path / f"home-{name}" / ".gitconfig").write_text(
            "[commit]\n\tgpgSign = true\n[core]\n\thooksPath = /nowhere\n"
        )
        harness = Harness(tmp_path / name)
        first = harness.begin({"lr": 1e-5})
        second = harness.commit(first, {RECIPE: recipe_text({"lr": 2e-5}), "rewards/x.py": "x = 1\n"}, "b1: lr")
        found.append((first, second))
    assert found[0] == found[1]
    assert not (tmp_path / "elsewhere").exists()


def test_a_branch_is_a_worktree_and_main_follows(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    first = harness.begin({"lr": 1e-5})
    assert harness.begin({"lr": 1e-5}) == first
    second = harness.commit(first, {"rewards/x.py": "x = 1\n", RECIPE: recipe_text({"lr": 2e-5})}, "b1: lr\n\nwhy")
    assert harness.recipe(second) == {"lr": 2e-5} and harness.recipe(first) == {"lr": 1e-5}
    folder = harness.checkout(second, "b1")
    assert (folder / "rewards" / "x.py").read_text() == "x = 1\n"
    assert not (harness.path / "rewards").exists()
    harness.advance(second)
    assert (harness.path / "rewards" / "x.py").exists()
    assert set(harness.files(second)) == {"README.md", "rewards/x.py"}
    assert [subject for _, subject in harness.log()] == ["b1: lr", "The first harness"]
    third = harness.commit(second, {"rewards/x.py": None}, "gone")
    assert set(harness.files(third)) == {"README.md"}
    assert harness.commit(third, {}, "nothing") == third


def test_what_a_kill_left_half_made_is_made_again(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    first = harness.begin({"lr": 1e-5})
    folder = harness.checkout(first, "b1")
    (folder / RECIPE).unlink()
    assert (harness.checkout(first, "b1") / RECIPE).is_file()
    shutil.rmtree(folder)
    assert (harness.checkout(first, "b1") / RECIPE).is_file()
    shutil.rmtree(harness.path)
    harness.path.mkdir()
    (harness.path / "junk").write_text("x")
    assert Harness(tmp_path).begin({"lr": 1e-5}) == first


def test_files_cannot_leave(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    first = harness.begin({"lr": 1e-5})
    for name in ("../x", "/x", "a/../../x", ".git/config", "a/.GIT/x", "a\\b", "", "./a"):
        with pytest.raises(UsageError, match="no path inside"):
            safe_path(name)
        with pytest.raises(UsageError):
            harness.commit(first, {name: "x"}, "out")
    with pytest.raises(UsageError, match="limit"):
        harness.commit(first, {"rewards/x.py": "x" * 300_000}, "big")
    assert not (tmp_path / "x").exists()


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert os.environ["PATH"] == str(tmp_path)
    with pytest.raises(UsageError, match="install it"):
        Harness(tmp_path / "lab").begin({})
