"""Settings that cannot work are refused before a folder is made, with the setting, its value and the next step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from coevo.errors import ConfigError, UsageError
from coevo.gate.settings import GateConfig
from coevo.lab.checking import require_sizes
from coevo.lab.driver import absolute_config, new_lab
from coevo.lab.interventions import allowed, apply, lean
from coevo.lab.types import Change
from coevo.stats import flipped_paths, smallest_flip_share
from tests.lab.small_lab import config

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "usd of nothing": ({"budget": {"usd": 1e-9}}, r"budget\.usd = 1e-09"),
    "usd of everything": ({"budget": {"usd": 1e300}}, r"budget\.usd"),
    "tokens": ({"budget": {"tokens": 10**20}}, r"budget\.tokens"),
    "minutes": ({"budget": {"minutes": 1e-7}}, r"budget\.minutes"),
    "calibration": ({"calibration": 10**8}, "calibration"),
    "min_gain": ({"gate": {"min_gain": 1.0}}, r"gate\.min_gain"),
    "samples": ({"gate": {"samples": 10**8}}, r"gate\.samples = 100,000,000 .*2,000,000 are the limit"),
    "alpha": ({"gate": {"alpha": 1e-3}, "branches": 16}, r"gate\.alpha = 0\.001 over branches = 16 .*1 in 10,000"),
    "holdout": ({"gate": {"holdout_alpha": 1e-7}}, r"gate\.holdout_alpha = 1e-07 is under the smallest p"),
    "script": ({"agent": {"kind": "scripted"}}, r"needs agent\.script"),
    "no script": ({"agent": {"kind": "scripted", "script": "/nowhere.jsonl"}}, r"cannot read /nowhere\.jsonl"),
    "model": ({"agent": {"kind": "model"}}, r"needs agent\.model"),
    "what model": ({"agent": {"kind": "model", "model": "gpt"}}, "gpt"),
    "command": ({"agent": {"kind": "command"}}, r"needs agent\.command"),
    "no command": ({"agent": {"kind": "command", "command": ["/nowhere"]}}, "no program '/nowhere'"),
    "unread": ({"agent": {"model": "openai:x"}}, r"agent\.model is set, and agent\.kind = 'playbook'"),
    "skills": ({"skills": ["/nowhere"]}, "/nowhere is no folder of skills"),
    "empty skills": ({"skills": [""]}, "empty name"),
    "skills in a file": ({"skills": ["/etc/passwd"]}, "/etc/passwd is no folder of skills"),
    "allowed nothing": ({"allowed": {"learning_rate": "lr"}}, "'learning_rate' meets no setting"),
    "allowed gate": ({"allowed": {"gate.*": "the gate"}}, r"'gate\.\*' meets no setting"),
    "allowed seed": ({"allowed": {"seed": "seeds"}}, "'seed' is sealed"),
    "nothing allowed": ({"allowed": {"*": ""}}, "takes everything away"),
    "reward file": ({"recipe": {"reward": {"parts": {"/nowhere.py:f": 1.0}}}}, r"reward file /nowhere\.py"),
    "seed": ({"recipe": {"seed": 3}}, r"recipe\.seed = 3 would change nothing"),
    "steps": ({"recipe": {"steps": 99}}, r"recipe\.steps = 99 would change nothing"),
    "tasks": ({"tasks": {"gate": ["heilbronn_triangle"]}}, r"tasks\.gate would change nothing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    changes, said = WRONG[name]
    with pytest.raises(UsageError, match=said):
        new_lab(config(**changes), tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


class Few:
    """A measurer of so many tasks a split."""

    def __init__(self, count: int) -> None:
        self.count = count

    def tasks(self, split: str) -> tuple[str, ...]:
        return tuple(map(str, range(self.count)))


@pytest.mark.parametrize("count", [2, 4, 5, 6, 8])
def test_too_few_tasks_for_any_promotion(count: int) -> None:
    """By the test itself: every task gained, and it still does not cross."""
    import numpy as np

    gate = GateConfig(min_tasks=2)
    crosses = flipped_paths(np.ones((count, 1)), seed=0).crossing([gate.alpha / 2]) > 0
    assert crosses == (smallest_flip_share(count) <= gate.alpha / 2)
    settings = config(gate={"min_tasks": 2}, branches=2)
    if crosses:
        require_sizes(settings, Few(count))
    else:
        with pytest.raises(ConfigError, match=rf"on {count} tasks, 1 in {2**count}"):
            require_sizes(settings, Few(count))


def test_a_setting_taken_away_from_a_wider_pattern() -> None:
    lab = config(allowed={"loss.kl": "", "reward.parts.length": ""})
    may = allowed(lab)
    assert "loss.*" not in may and "loss.kl" not in may and "loss.name" in may
    for sets in ({"loss.kl": 0.1}, {"reward.parts.length": 0.5}):
        with pytest.raises(UsageError, match="may not change in this lab"):
            apply(Change(sets=sets), lean(lab.recipe), lab)
    assert apply(Change(sets={"loss.name": "grpo"}), lean(lab.recipe), config()).changed


def test_only_what_is_named() -> None:
    lab = config(allowed={"*": "", "lr": "learning rate", "loss.k*": "KL"})
    assert set(allowed(lab)) == {"lr", "loss.k*"}
    assert apply(Change(sets={"lr": 0.1}), lean(lab.recipe), lab).changed == ("lr",)
    with pytest.raises(UsageError, match="may not change in this lab"):
        apply(Change(sets={"loss.name": "grpo"}), lean(lab.recipe), lab)


def test_what_a_skill_folder_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "skills" / "broken").mkdir(parents=True)
    (tmp_path / "skills" / "broken" / "SKILL.md").write_text("no front matter")
    (tmp_path / "none").mkdir()
    said: list[str] = []
    skills = [str(tmp_path / "skills"), str(tmp_path / "none")]
    new_lab(config(skills=skills), tmp_path / "lab", notify=said.append)
    assert len(said) == 1 and "broken will not be used" in said[0]
    said.clear()
    new_lab(config(skills=skills[1:]), tmp_path / "other", notify=said.append)
    assert len(said) == 1 and "no skill was found" in said[0]


def test_a_script_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_config(config(agent={"kind": "scripted", "script": "plan.jsonl"})).agent.script == str(
        tmp_path / "plan.jsonl"
    )
