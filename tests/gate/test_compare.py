"""`coevo compare`: a difference with all it rests on, and what stands against believing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coevo.cli.main import app
from coevo.errors import GateBlocked, UsageError
from coevo.evidence.rows import frame_of
from coevo.gate.comparing import compare, compare_evidence
from coevo.gate.types import Verdict
from coevo.stats import sign_flip_p
from coevo.streams import array_stream
from tests.gate.driver import u_shaped

N = 40
Rows = list[dict[str, Any]]


def rollouts(gain: float = 0.0, *, seed: int = 0, n: int = N, samples: int = 8, **columns: Any) -> Rows:
    rows = []
    for i in range(n):
        rng = array_stream(seed, "rollouts", i, str(gain))
        rate = float(np.clip(u_shaped(f"t{i}") + gain, 0, 1))
        for k in range(samples):
            truth = float(rng.random() < rate)
            row = {"schema": 1, "run": "r", "split": "eval", "task": f"t{i}", "group": f"t{i}", "sample": k, "step": 0}
            more = {"truth": truth, "reward": truth, "fitness": truth, "unmeasured_reason": ""}
            rows.append({**row, **more, **columns})
    return rows


def found(a: Rows, b: Rows, **options: Any) -> Any:
    return compare(frame_of(a), frame_of(b), **options)


def test_better_worse_and_no_telling() -> None:
    better = found(rollouts(), rollouts(0.2))
    assert better.verdict is Verdict.PROMOTED and better.low > 0 and better.p < 0.001 < better.p_worse
    worse = found(rollouts(0.2), rollouts())
    assert worse.verdict is Verdict.REJECTED and worse.high < 0
    assert worse.difference == pytest.approx(-better.difference)
    assert (worse.low, worse.high) == pytest.approx((-better.high, -better.low), abs=0.01)
    open_ = next(
        c
        for s in range(20)
        if (c := found(rollouts(seed=s, n=14), rollouts(0.06, seed=s, n=14))).verdict is Verdict.INCONCLUSIVE
    )
    assert open_.low < 0 < open_.high and open_.to_settle > 14
    assert open_.detectable > 0.05


def test_numbers_are_those_of_the_differences() -> None:
    a, b = rollouts(), rollouts(0.1, seed=1)
    result = found(a, b)
    means = [
        {t: np.mean([r["truth"] for r in rows if r["task"] == t]) for t in {r["task"] for r in rows}} for rows in (a, b)
    ]
    differences = [float(means[1][t] - means[0][t]) for t in sorted(means[0])]
    assert result.difference == pytest.approx(np.mean(differences))
    assert result.mean_b - result.mean_a == pytest.approx(result.difference)
    assert result.p == sign_flip_p(differences, seed=0, alternative="greater")
    assert result.tasks == N and result.samples == (N * 8, N * 8)


def test_shuffled_rows_are_the_same_rollouts() -> None:
    a, b = rollouts(), rollouts(0.1, seed=1)
    order = array_stream(1, "order").permutation(len(b))
    assert found(a, b) == found(a, [b[i] for i in order])


def test_what_only_one_side_has_is_left_out_and_named() -> None:
    result = found(rollouts(n=40), rollouts(0.2, n=30))
    assert result.tasks == 30 and any("10 tasks of A alone" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("a", "b", "options", "says"),
    [
        (rollouts(), rollouts(task="other"), {}, "no task in common"),
        (rollouts(), rollouts(split="train"), {}, "no split in common: A has eval, B has train"),
        (rollouts(), rollouts(), {"split": "gate"}, r"no rows of split 'gate' \(it has: eval\)"),
        (
            rollouts(truth=None),
            rollouts(),
            {},
            r"A has no truth in split 'eval'; it has reward and fitness \(--metric reward\)",
        ),
        (
            rollouts(truth=None, split=None),
            rollouts(split=None),
            {},
            r"A has no truth; it has reward and fitness \(--metric reward\)",
        ),
        (rollouts(), rollouts(truth=None, reward=None, fitness=None), {}, "no score at all"),
        (rollouts(), rollouts(), {"step": 7}, "no rows of step 7"),
        (rollouts(task=None), rollouts(), {}, "does not say which task"),
    ],
)
def test_what_cannot_be_compared_is_named(a: Rows, b: Rows, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        found(a, b, **options)


def test_warnings_of_what_a_reader_must_know() -> None:
    def warned(a: Rows, b: Rows, says: str, **options: Any) -> None:
        assert any(says in w for w in found(a, b, **options).warnings)

    same = rollouts()
    warned(same, same, "same rows")
    warned(rollouts(samples=2), rollouts(0.1, samples=2), "2.0 samples a task")
    warned(rollouts(), [{**r, "fitness": 1.0} for r in rollouts(seed=1)], "what is seen improved more")
    warned(rollouts(), [{**r, "reward": 1.0} for r in rollouts(seed=1)], "compare truth", metric="reward")
    warned(rollouts(), rollouts(0.1, kept=True), "only rows that a filter kept", metric="reward")
    assert not found(rollouts(), rollouts(0.2, seed=5)).warnings


def test_the_last_step_counts_where_there_are_several() -> None:
    two = [*rollouts(0.3, step=1), *rollouts(step=9)]
    last = found(rollouts(), two)
    assert last.difference == pytest.approx(0.0) and "measured at 2 steps; the last, 9" in last.warnings[0]
    assert found(rollouts(step=1), two, step=1).verdict is Verdict.PROMOTED


def test_unmeasured_is_no_zero_and_too_much_of_it_no_verdict() -> None:
    lost = [
        {**r, "truth": None, "unmeasured_reason": "down"} if i % 16 == 0 else r for i, r in enumerate(rollouts(0.2))
    ]
    both = [{**r, "truth": None, "unmeasured_reason": "down"} if i % 16 == 0 else r for i, r in enumerate(rollouts())]
    some = found(both, lost)
    assert some.verdict is Verdict.PROMOTED and some.unmeasured == pytest.approx((1 / 16, 1 / 16))
    one_sided = found(rollouts(), lost)
    assert one_sided.verdict is Verdict.UNMEASURED and "depends on the side" in one_sided.reasons[0]
    many = [{**r, "truth": None} if i % 4 == 0 else r for i, r in enumerate(rollouts(0.2))]
    assert found(many, many).verdict is Verdict.UNMEASURED
    assert found(rollouts(n=11), rollouts(0.4, n=11)).verdict is Verdict.UNMEASURED


def test_a_gain_must_hold_even_if_what_it_lacks_had_failed() -> None:
    def lacks(rows: Rows, count: int) -> Rows:
        failed = [row for row in rows if row["truth"] == 0.0]
        for row in failed[:: len(failed) // count][:count]:
            row |= {"truth": None, "unmeasured_reason": "timeout"}
        return rows

    twins = [found(rollouts(seed=s), lacks(rollouts(0.0001, seed=s), 6)) for s in range(40)]
    assert any("may be those that failed; counted as 0" in twin.reasons[0] for twin in twins)
    assert sum(twin.verdict is Verdict.PROMOTED for twin in twins) <= 4
    assert found(rollouts(), lacks(rollouts(0.2), 4)).verdict is Verdict.PROMOTED


def test_one_side_may_not_choose_its_rows() -> None:
    """The same policy twice: one side repeats what went well, or leaves out what did not, and says nothing of it."""
    a, b = rollouts(), rollouts(seed=7)
    assert found(a, b).verdict is not Verdict.PROMOTED
    good = [r for r in b if r["truth"]]
    repeated = found(a, [*b, *good, *good])
    assert repeated.verdict is Verdict.UNMEASURED and "counts some twice" in repeated.reasons[0]
    chosen = found(a, [r for i, r in enumerate(b) if r["truth"] or i % 3])
    assert chosen.verdict is Verdict.UNMEASURED and "not there" in chosen.reasons[0]
    few = found(a, [r for i, r in enumerate(b) if r["truth"] or i % 13])
    assert few.verdict is Verdict.UNMEASURED and "depends on the side" in few.reasons[0]
    plain = [{k: v for k, v in r.items() if k != "sample"} for r in rollouts(0.2)]
    assert found(a, plain).verdict is Verdict.PROMOTED, "rows without sample numbers tell nothing"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for name, rows in (("a", rollouts()), ("b", rollouts(0.2))):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({**r, "prompt": "p", "response": "r"}) + "\n" for r in rows))
        paths.append(str(path))
    return paths[0], paths[1]


def test_the_command(files: tuple[str, str]) -> None:
    a, b = files
    said = CliRunner().invoke(app, ["compare", a, b])
    assert said.exit_code == 0, said.output
    assert "verdict: promoted: B is better than A" in said.output.splitlines()[-1]
    data = json.loads(CliRunner().invoke(app, ["compare", a, b, "--json", "--require", "promoted"]).output)
    assert data["verdict"] == "promoted" and data["tasks"] == N and data["low"] > 0
    assert data == json.loads(json.dumps(compare_evidence(a, b).to_dict()))


def test_the_command_as_a_gate(files: tuple[str, str]) -> None:
    a, b = files
    blocked = CliRunner().invoke(app, ["compare", b, a, "--require", "promoted"])
    assert isinstance(blocked.exception, GateBlocked) and "rejected, not promoted" in str(blocked.exception)
    for wrong in (["compare", a, a], ["compare", a, b, "--metric", "vibes"], ["compare", a, b, "--require", "yes"]):
        assert isinstance(CliRunner().invoke(app, wrong).exception, UsageError)


def test_a_branch_of_a_lab_has_a_short_name(files: tuple[str, str], tmp_path: Path) -> None:
    a, b = files
    for name, path in (("b0", a), ("b1", b)):
        folder = tmp_path / "lab" / "branches" / name
        folder.mkdir(parents=True)
        (folder / "rows.jsonl").write_text(Path(path).read_text())
    assert compare_evidence(f"{tmp_path}/lab:b0", f"{tmp_path}/lab:b1").verdict is Verdict.PROMOTED
    with pytest.raises(UsageError, match="no rows of a branch or run 'b9'"):
        compare_evidence(f"{a}:b9", a)
    with pytest.raises(UsageError, match="no evidence at"):
        compare_evidence(f"{tmp_path}/nowhere:b0", a)


def test_branches_of_one_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    rows = [*rollouts(branch="old"), *rollouts(0.2, branch="new")]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert compare_evidence(f"{path}:old", f"{path}:new").verdict is Verdict.PROMOTED
    mixed = compare_evidence(f"{path}:old", path)
    assert any("holds 2 branches (new, old)" in w for w in mixed.warnings)
