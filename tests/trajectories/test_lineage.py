"""Lineages: what a row shows is what the search showed, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.session import Setup
from coevo.evolution.settings import MODEL_EDITS
from coevo.evolution.shelf import Shelf
from coevo.evolution.types import Edit
from coevo.models.record import request_digest
from coevo.models.types import Sampling
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.tasks import load_task
from coevo.trajectories.lineage import context_of, evaluation_seed, outline, trace
from coevo.trajectories.settings import LineageConfig
from tests.evolution.problems import REPLIES, line_task
from tests.trajectories import world


@pytest.fixture(scope="module", params=["rounds", "steady", "early"])
def folder(request, tmp_path_factory) -> Path:
    """A search with models and operators, in which replies are rejected, repeated and fail."""
    root = tmp_path_factory.mktemp("search")
    early = {"schedule": "steady", "model_share": 0.5, "ahead": 8}
    more = early if request.param == "early" else {"schedule": request.param}
    task = line_task(root / "line")
    return world.search(task, root / "run", models=(world.script(root, REPLIES),), steps=80, **more)


def traced(run: Run, config: LineageConfig = LineageConfig()):  # noqa: B008 - frozen
    return list(trace(run, Setup.read(run), outline(run, config), config))


def test_every_model_step_shows_the_prompt_that_was_sent(folder: Path) -> None:
    with Run.open(folder, write=False) as run:
        setup = Setup.read(run)
        shelf = Shelf(run, seed=evaluation_seed(setup))
        view = TaskView.of(load_task(setup.task.ref).config)
        events = {event.step: event.payload for event in run.events(kinds=("candidate",))}
        checked = rejected = 0
        for row in traced(run):
            if Edit(events[row.step]["decision"]["edit"]) not in MODEL_EDITS:
                continue
            messages = build_messages(view, context_of(shelf, row), style=row.style)
            seed = stream_seed(setup.search.seed, "model", row.step) % 2**31
            request = Sampling(max_tokens=200).request(messages, seed=seed, key=f"step-{row.step}")
            stored = run.completion(f"step-{row.step}")
            assert stored is not None and stored["request"] == request_digest(request), row.step
            checked += 1
            rejected += bool(row.rejected)
        assert checked > 20 and rejected > 3


def test_rows_follow_the_events(folder: Path) -> None:
    with Run.open(folder, write=False) as run:
        found = {row.step: row for row in traced(run)}
        events = [(event.step, event.payload) for event in run.events(kinds=("candidate",))]
        assert set(found) == {step for step, row in events if step and row.get("rejection") != "model_failed"}
        depth = {events[0][1]["program"]: 0}
        for step, payload in events[1:]:
            row, child = found[step], payload.get("program")
            assert row.parent == payload["decision"]["parent"] and row.depth == depth[row.parent]
            assert row.next == (child if "evaluation" in payload else None)
            assert row.outcome == payload.get("evaluation", {}).get("outcome", payload.get("rejection"))
            assert row.parent not in row.history and not {row.parent, *row.history} & set(row.known)
            if child is not None:
                depth.setdefault(child, row.depth + 1)
        assert max(depth.values()) > 2
        assert any(row.history for step, row in found.items() if row.style is Edit.REWRITE)


def test_known_is_the_archive_fittest_first_when_it_was_decided(folder: Path) -> None:
    with Run.open(folder, write=False) as run:
        first = {}
        fitness = {}
        for event in run.events(kinds=("candidate",)):
            if "program" in event.payload and "evaluation" in event.payload:
                first.setdefault(event.payload["program"], event.step)
                fitness.setdefault(event.payload["program"], event.payload["evaluation"].get("fitness"))
        rows = traced(run)
        for row in rows:
            assert all(first[program] < row.step for program in row.known)
            values = [fitness[program] for program in row.known]
            assert values == sorted(values, reverse=True)
        assert max(len(row.known) for row in rows) > 3
        assert max(len(row.known) for row in traced(run, LineageConfig(known=2))) == 2
        assert not any(row.known for row in traced(run, LineageConfig(known=0)))


def test_settings_leave_steps_out_and_count_them(folder: Path) -> None:
    with Run.open(folder, write=False) as run:
        everything = traced(run)
        models = outline(run, LineageConfig(operators=False))
        assert models.dropped["operators"] + len(models.steps) == len(everything)
        whole = outline(run, LineageConfig(rejected=False))
        assert whole.dropped["rejected"] == sum(row.next is None for row in everything) > 0
        few = LineageConfig(per_run=7)
        some = traced(run, few)
        assert len(some) == 7 and outline(run, few).dropped["per_run"] == len(everything) - 7
        by_step = {row.step: row for row in everything}
        assert all(by_step[row.step] == row for row in some)
        assert some[0].step < 20 < 60 < some[-1].step
