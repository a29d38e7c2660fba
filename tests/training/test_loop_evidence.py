"""What the loop keeps and trains on, held against what the engine itself sampled and was handed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from coevo.engines.types import Engine, LossConfig, LossStats, Row
from coevo.evolution.interrupts import Interrupts
from coevo.models.sampler import Prompt, Sampled
from coevo.runs import Run
from coevo.training.grpo import Loop
from coevo.training.history import curve
from coevo.training.records import stored_rows
from coevo.training.rewards import reward_of
from coevo.training.session import begin, train
from tests.training.recipes import recipe


class Witness:
    """The engine itself, with a note of all that it sampled and learnt from."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sampled: list[tuple[Prompt, Sampled]] = []
        self.learnt: list[list[Row]] = []

    def sample(self, prompts: Any, **named: Any) -> list[Sampled]:
        found = self._engine.sample(prompts, **named)
        self.sampled += zip(prompts, found, strict=True)
        return found

    def forward_backward(self, rows: Any, loss: LossConfig) -> LossStats:
        self.learnt.append(list(rows))
        return self._engine.forward_backward(rows, loss)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def runs_of(flags: tuple[bool, ...]) -> Iterator[tuple[int, int]]:
    """Where stretches of True begin and end."""
    begin = None
    for i, flag in enumerate((*flags, False)):
        if flag and begin is None:
            begin = i
        elif not flag and begin is not None:
            yield begin, i
            begin = None


CASES: dict[str, dict[str, Any]] = {
    "one reply": {},
    "one reply, replaced groups": {"filter": {"name": "zero_spread", "spread": 0.3, "replace": 2}},
    "several replies": {"episode": {"name": "refine", "rounds": 3, "max_tokens": 40}},
    "several passes": {"epochs": 2, "episode": {"name": "refine", "rounds": 2, "max_tokens": 40}},
}


@pytest.mark.parametrize("case", CASES)
def test_the_engine_learns_from_what_it_sampled_but_for_what_is_masked(stage: Any, tmp_path: Path, case: str) -> None:
    own = tmp_path / "own.py"
    own.write_text("def reward(sample):\n    return 1 / 0 if sample.text.count('1') == 1 else sample.fitness or 0.0\n")
    settings = {"reward": {"parts": {f"{own}:reward": 1.0}}, "allow_cheats": True, "group_size": 8, **CASES[case]}
    with (
        begin(recipe(stage, **settings), tmp_path / "run") as session,
        reward_of(session.parts.recipe.reward) as reward,
        Interrupts(session.run.path) as interrupts,
    ):
        session.parts.engine = witness = Witness(session.parts.engine)
        loop = Loop(session.parts, reward, interrupts)
        masked = trained = 0
        for step in (1, 2):
            witness.sampled, witness.learnt = [], []
            loop.step()
            rows = stored_rows(session.run, step)
            assert witness.learnt == [rows] * session.parts.recipe.epochs
            evidence = [row for row in session.run.rollouts(split="train") if row["step"] == step]
            assert sum(len(sampled.token_ids) for _, sampled in witness.sampled) == sum(r["tokens"] for r in evidence)
            assert len(rows) == sum(row["kept"] for row in evidence)
            drawn = {(prompt.ids, sampled.token_ids): sampled for prompt, sampled in witness.sampled}
            for row in rows:
                after = row.token_ids[row.prompt_tokens :]
                stretches = list(runs_of(row.trained))
                assert stretches, "a row without a trained token"
                for start, stop in stretches:
                    # What stood before it is the very prompt it was sampled from, masked turns and messages included.
                    sampled = drawn[row.token_ids[: row.prompt_tokens + start], after[start:stop]]
                    assert row.logprobs[start:stop] == sampled.logprobs
                    assert len(set(row.advantages[start:stop])) == 1
                assert all(
                    log == advantage == 0
                    for log, advantage, own in zip(row.logprobs, row.advantages, row.trained, strict=True)
                    if not own
                )
                trained += sum(row.trained)
            masked += sum(bool(row["unmeasured_reason"]) for row in evidence)
        assert masked and trained


def test_the_truth_of_a_step_is_that_of_the_rollouts_it_was_asked_for(stage: Any, tmp_path: Path) -> None:
    """A reply without a program is worth 0; one whose truth was not asked for says nothing, program or not."""
    plan = recipe(stage, steps=1, groups=4, group_size=12, episode={"max_tokens": 24, "truth": 0.5})
    train(plan, tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as run:
        evidence = list(run.rollouts(split="train"))
        told = next(iter(curve(run)))
    known = [row["truth"] for row in evidence if row["truth"] is not None]
    assert any(not row["contract_ok"] for row in evidence), "every reply held a program"
    assert 0 < len(known) < len(evidence)
    assert told["truth"] == pytest.approx(fmean(known))
