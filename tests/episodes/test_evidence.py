"""The evidence row: reward and truth apart, format and meaning apart, and the whole way through a run and its export."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from coevo.cli.main import app
from coevo.episodes.evidence import COLUMNS, SCHEMA, evidence_row
from coevo.episodes.running import run_episodes
from coevo.episodes.types import EpisodeConfig
from coevo.evaluation.types import Outcome
from coevo.runs import Run
from tests.episodes.stage import CountingPool, TablePolicy, fenced, ramp_task, starts_of, state_of, upto

REPLIES = [fenced(upto(4)), fenced(upto(2)), "No code.", fenced("def f(x):\n    return 1 / 0\n")]


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory):
    task = ramp_task(tmp_path_factory.mktemp("tasks") / "ramp3")
    with CountingPool([task]) as pool:
        replies = iter(REPLIES)
        policy = TablePolicy(lambda *_: next(replies))
        starts = starts_of(state_of(task, depth=2), 4)
        tasks = {task.name: task}
        yield run_episodes(policy, starts, EpisodeConfig(max_tokens=600), pool=pool, tasks=tasks, seed=0, step=3)


def row(rollout, **changes):
    known = {"run": "r1", "branch": "main", "step": 3, "split": "train", "kind": "function", "reward": 0.5}
    return evidence_row(rollout, **(known | changes))


def test_a_row_has_exactly_the_columns_of_the_schema_and_tells_apart_what_must_be(rollouts):
    rows = [row(r, parts={"search_gain": 0.5}, advantage=[1.0, 2.0], kept=True) for r in rollouts]
    assert all(tuple(r) == COLUMNS and r["schema"] == SCHEMA for r in rows)
    assert [r["truth"] for r in rows] == [1.0, 0.5, 0.0, 0.0]
    assert [r["contract_ok"] for r in rows] == [True, True, False, True]
    assert [r["meaning_ok"] for r in rows] == [True, False, False, False]
    assert [r["fitness"] for r in rows] == [1.0, 0.5, None, 0.0]
    assert [r["response"] for r in rows] == REPLIES
    first, third = rows[0], rows[2]
    assert (first["parent_fitness"], first["depth"], first["edit_kind"], first["turns"]) == (0.0, 2, "rewrite", 1)
    assert first["advantage"] == 1.5 and first["parts"] == {"search_gain": 0.5} and first["kept"] is True
    assert first["tokens"] == len(rollouts[0].turns[0].token_ids) and first["stop_reason"] == "stop"
    assert first["logprob_mean"] == pytest.approx(sum(rollouts[0].turns[0].logprobs) / first["tokens"])
    assert "Add 3." in first["prompt"] and first["program_hash"] and third["program_hash"] == ""
    assert first["unmeasured_reason"] == "" and first["entropy_mean"] is None


def test_what_was_not_measured_has_no_number_anywhere(rollouts):
    lost = replace(rollouts[0], unmeasured="a worker died")
    found = row(lost)
    assert found["unmeasured_reason"] == "a worker died"
    assert [found[name] for name in ("reward", "truth", "contract_ok", "meaning_ok")] == [None] * 4
    never = row(replace(rollouts[0], turns=(), unmeasured="too long"))
    assert (never["turns"], never["tokens"], never["stop_reason"], never["fitness"]) == (0, 0, None, None)
    raised = row(rollouts[0], reward=None, reason="raised ValueError: no")
    assert raised["reward"] is None and raised["truth"] == 1.0 and raised["unmeasured_reason"].startswith("raised")


def test_truth_is_none_where_it_was_not_asked_for_or_could_not_be_measured(rollouts):
    assert row(replace(rollouts[2], truth=False))["truth"] is None
    turn = rollouts[0].turns[0]
    hidden = replace(turn.judged.hidden, outcome=Outcome.UNMEASURED, fitness=None)
    assert (
        row(replace(rollouts[0], turns=(replace(turn, judged=replace(turn.judged, hidden=hidden)),)))["truth"] is None
    )


def test_an_open_answer_means_something_when_it_is_valid(rollouts):
    assert [row(r, kind="open")["meaning_ok"] for r in rollouts] == [True, True, False, False]


def test_rows_survive_a_run_and_its_export(rollouts, tmp_path):
    rows = [row(r, kept=r.sample % 2 == 0, parts={"search_gain": 0.5}, advantage=0.25) for r in rollouts]
    with Run.create(tmp_path / "run", kind="train", config={}) as run:
        assert run.put_rollouts(rows, step=3) == 4
        assert list(run.rollouts(split="train")) == rows
        digest = run.digest()
    with Run.create(tmp_path / "again", kind="train", config={}) as run:
        run.put_rollouts([{**r, "wall_s": 9.0} for r in rows], step=3)
        assert run.digest() == digest, "how long it took is no part of what happened"
    for name in ("rows.jsonl", "rows.parquet"):
        done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "rollouts", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [(r["task"], r["reward"], r["truth"]) for r in table] == [("ramp3", 0.5, t) for t in (1.0, 0.5, 0.0, 0.0)]
    assert [json.loads(r["payload"]) for r in table] == rows
