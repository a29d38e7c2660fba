"""`coevo backtest`, from its arguments to what it prints and the code it ends with."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest

from coevo.cli import main


@pytest.fixture
def coevo(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coevo", "backtest", *map(str, arguments)])
        code: object = 0
        try:
            main.run()
        except SystemExit as e:
            code = e.code or 0
        said = capfd.readouterr()
        assert isinstance(code, int)
        return code, said.out, said.err

    return call


@pytest.fixture(scope="session")
def runs(trained) -> dict[str, str]:
    found = {f"good{i}": str(trained(f"seed={i}")[1]) for i in range(4)}
    return found | {f"bad{i}": str(trained(f"seed={10 + i}", "toy.leak=0.8")[1]) for i in range(4)}


def test_reward_filter_and_limit(coevo, runs) -> None:
    code, out, _ = coevo(runs["good0"], "--reward", "parts={metaevolve: 1}", "--json")
    told = json.loads(out)
    assert (
        code == 0 and told["kind"] == "reward" and told["agreement"] == 1 and told["order"]
        if "order" in told
        else told["after"]["order"]
    )
    code, out, _ = coevo(runs["good0"], "--reward", "parts={metaevolve: 1}")
    assert code == 0 and "the parent handed back" in out and "recomputes_recorded: 1 (share" in out
    assert "prediction: " in out and "Above 0 it pays more for what is truly better" in out
    code, out, _ = coevo(
        runs["good0"], "--reward", "tolerance=0.02", "--advantage", "best_of_k", "--filter", "snr", "--json"
    )
    assert code == 0 and json.loads(out)["after"]["kept_groups"] < json.loads(out)["before"]["kept_groups"]
    code, out, _ = coevo(runs["good0"], "--filter", "top_uncertain", "--filter", "share=0.5")
    assert code == 0 and "bias: " in out and "hard" in out and "above 1 it drops the groups that teach least" in out
    code, out, _ = coevo(runs["good0"], "--max-tokens", "100")
    assert code == 0 and "saved_share: " in out and "less share of rollouts of true gain cut" in out
    assert not re.search(r"\d\.\d{7}", out), "no float noise"


def test_branches(coevo, runs) -> None:
    sides = [
        argument for name, path in runs.items() if name != "good0" for argument in ("--branch", f"{name[:-1]}={path}")
    ]
    code, out, _ = coevo(
        runs["good0"], "--outcome", "good", *sides, "--diagnostic", "drift(mean(reward)) - drift(mean(truth))", "--json"
    )
    assert code == 0 and json.loads(out)["auc"] == 1.0 and json.loads(out)["p"] == pytest.approx(2 / 70)
    code, out, _ = coevo(runs["good0"], "--outcome", "good", *sides, "--screen")
    assert code == 0 and "drift(mean(reward)) - drift(mean(truth))" in out and "tried: " in out
    code, out, _ = coevo(runs["good0"], "--outcome", "good", *sides, "--rule", "leak", "--json")
    assert code == 0 and json.loads(out)["false_alarms"] == []
    code, out, err = coevo(runs["good0"], "--diagnostic", "mean(tokens)", "--levels", "90,100", "--admit")
    assert code == 4 and "cannot be known yet" in err and "admitted: False" in out


def test_a_measure_in_a_file(coevo, runs, tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def measure(columns):\n    return columns['tokens'].mean()\n")
    code, out, _ = coevo(runs["good0"], "--diagnostic", path, "--levels", "10,20", "--json")
    assert code == 0 and json.loads(out)["table"][0]["level"] == "critical"
    code, _, err = coevo(runs["good0"], "--diagnostic", path)
    assert code == 2 and "--levels" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say one thing to replay"),
        (("--max-tokens", "0"), "cuts everything"),
        (("--max-tokens", "5", "--rule", "leak"), "say one thing"),
        (("--rule", "leek"), "Did you mean 'leak'"),
        (("--diagnostic", "dead-grops"), "Did you mean 'dead-groups'"),
        (("--diagnostic", "mean(reward"), "cannot be read"),
        (("--diagnostic", "mean(reward)", "--levels", "a,b"), "two numbers"),
        (("--screen", "--branch", "runs/a"), "good=SOURCE"),
        (("--screen", "--admit"), "name one"),
        (("--reward", "parts={nothing: 1}"), "unknown reward"),
        (("--filter", "sn"), "--filter"),
        (("--max-tokens", "5", "--split", "none"), "no rollouts of split"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_to_do(coevo, runs, arguments, says) -> None:
    code, _, err = coevo(runs["good0"], *arguments)
    assert code == 2 and says in err
