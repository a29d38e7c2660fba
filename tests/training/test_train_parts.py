"""The parts around the loop, each by itself: rows as text, rates, branches, sinks, checkpoints."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.engines.types import Row
from coevo.errors import ConfigError, GateBlocked, StoreError, UsageError
from coevo.runs.jsontext import dumps, loads
from coevo.training import checkpoints
from coevo.training.branch import changes, require_effect
from coevo.training.rowtext import pack, unpack
from coevo.training.schedule import FLOOR, lr_at
from coevo.training.settings import Recipe
from coevo.training.sinks import QUEUE, Mirrors

floats = st.floats(allow_nan=False, width=64)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    prompt, after = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    lists = {
        "advantages": draw(st.lists(floats, min_size=after, max_size=after)),
        "trained": draw(st.lists(st.booleans(), min_size=after, max_size=after)),
        "logprobs": draw(
            st.lists(st.one_of(floats, st.floats(width=32, allow_nan=False)), min_size=after, max_size=after)
        ),
    }
    ids = draw(st.lists(st.integers(0, 2**31 - 1), min_size=prompt + after, max_size=prompt + after))
    return Row(
        tuple(ids),
        prompt,
        *(tuple(lists[name]) for name in ("advantages", "trained", "logprobs")),
        version=draw(st.integers(0, 10**6)),
        temperature=draw(st.floats(0.01, 10)),
        group=draw(st.text(max_size=5)),
    )


@given(st.lists(rows(), max_size=5))
def test_rows_come_back_bit_by_bit_through_the_store(some: list[Row]) -> None:
    assert unpack(loads(dumps(pack(some)))) == some


@given(st.lists(rows(), min_size=1, max_size=3), st.sampled_from(["lengths", "arrays", "prompts", "types"]))
def test_damaged_rows_are_refused(some: list[Row], name: str) -> None:
    data = pack(some)
    data[name] = {} if isinstance(data[name], dict) else [*data[name], 3]
    with pytest.raises(StoreError, match="damaged"):
        unpack(data)
    with pytest.raises(StoreError, match="format"):
        unpack({**pack(some), "format": 99})


@given(st.sampled_from(["constant", "linear", "cosine"]), st.integers(1, 50), st.integers(0, 60), st.integers(1, 80))
def test_rates_stay_between_the_floor_and_the_peak(schedule: Any, steps: int, warmup: int, step: int) -> None:
    recipe = Recipe(lr=1e-3, steps=steps, warmup=warmup, schedule=schedule)
    rate = lr_at(recipe, step)
    assert 0 < rate <= 1e-3 * (1 + 1e-12)
    if step <= warmup:
        assert rate == pytest.approx(1e-3 * step / warmup)
    else:
        assert rate >= 1e-3 * FLOOR * (1 - 1e-9)
        assert schedule != "constant" or rate == 1e-3
    if step >= max(steps, warmup + 1) and schedule != "constant":
        assert rate == pytest.approx(1e-3 * FLOOR)


def test_rates_fall_after_warm_up() -> None:
    for schedule in ("linear", "cosine"):
        rates = [lr_at(Recipe(lr=1.0, steps=20, warmup=5, schedule=schedule), step) for step in range(1, 21)]
        assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
        assert rates[4:] == sorted(rates[4:], reverse=True) and rates[-1] == pytest.approx(FLOOR)


def test_a_branch_lists_every_leaf_that_differs() -> None:
    old = Recipe()
    new = Recipe.model_validate(
        {"lr": 1e-4, "loss": {"clip_high": 0.5}, "reward": {"parts": {"lazy": 1.0}}, "engine": {"lora": {"rank": 4}}}
    )
    found = {one.field: (one.old, one.new) for one in changes(old, new)}
    assert found["lr"] == (1e-5, 1e-4)
    assert found["loss.clip_high"] == (0.28, 0.5)
    assert found["reward.parts.search_gain"] == (1.0, None) and found["reward.parts.lazy"] == (None, 1.0)
    assert found["engine.lora.rank"] == (None, 4)
    assert changes(old, old) == []


def test_what_did_not_take_effect_is_named_with_both_values() -> None:
    expected = {"lr": 1e-4, "groups": 8, "not seen": 1}
    require_effect(expected, {"lr": 1e-4 * (1 + 1e-9), "groups": 8}, changed={})
    with pytest.raises(
        GateBlocked, match=r"lr = 0\.0001 \(this branch changed it from 1e-05\) did not take effect.*1e-05"
    ):
        require_effect(expected, {"lr": 1e-5}, changed={"lr": 1e-5})


class Collector:
    def __init__(self, folder: Path, config: Any) -> None:
        self.points: list[int] = []

    def log(self, step: int, metrics: Any) -> None:
        self.points.append(step)

    def close(self) -> None:
        self.points.append(-1)


def test_sinks_that_work_get_every_point_and_others_harm_nobody(tmp_path: Path) -> None:
    good: list[Collector] = []
    stuck = threading.Event()

    class Raises(Collector):
        def log(self, step: int, metrics: Any) -> None:
            raise SystemExit("no network")

    class Hangs(Collector):
        def log(self, step: int, metrics: Any) -> None:
            stuck.wait()

    def opener(folder: Path, config: Any) -> Collector:
        good.append(Collector(folder, config))
        return good[-1]

    def cannot_open(folder: Path, config: Any) -> Collector:
        raise ImportError("no such package")

    openers = {"good": opener, "raises": Raises, "hangs": Hangs, "absent": cannot_open}
    mirrors = Mirrors(tuple(openers), tmp_path, {}, openers=openers, patience_s=2.0)
    count = QUEUE + 50
    for step in range(count):
        mirrors.log(step, {"reward": 1.0})
        while good and step - len(good[0].points) > QUEUE // 2:  # Only the hanging one is to be overrun.
            stuck.wait(0.001)
    mirrors.close()
    stuck.set()
    assert good[0].points == [*range(count), -1]
    said = "\n".join(mirrors.notes)
    assert "sink raises: SystemExit: no network" in said and "sink absent: ImportError: no such package" in said
    assert "sink hangs" in said and "left behind" in said and "lost" in said and "sink good" not in said


def test_an_unknown_sink_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'wandb'"):
        Mirrors(("wandbb",), tmp_path, {})


def test_a_checkpoint_is_named_by_its_step_or_its_rank(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no checkpoint"):
        checkpoints.pick(tmp_path)
    for step in (3, 20, 100):
        folder = tmp_path / "checkpoints" / checkpoints.name_of(step)
        folder.mkdir(parents=True)
        (folder / "coevo.json").write_text(json.dumps({"step": step, "state": None}))
    (tmp_path / "checkpoints" / "step-000200").mkdir()  # Without its mark it is none.
    assert [one.step for one in checkpoints.found(tmp_path)] == [3, 20, 100]
    assert checkpoints.pick(tmp_path).step == 100
    assert checkpoints.pick(tmp_path, "20").step == checkpoints.pick(tmp_path, "step-000020").step == 20
    with pytest.raises(UsageError, match="step-000003, step-000020, step-000100"):
        checkpoints.pick(tmp_path, "21")
