"""Synthesis end to end, in the real sandbox: sources, budget, settings, trouble."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevo.episodes.types import Source
from coevo.errors import BudgetSpent, ConfigError, GateBlocked, InfrastructureError, ModelError, StoreError, UsageError
from coevo.evaluation.judges import Judges, measure
from coevo.evaluation.pool import InlinePool
from coevo.models import open_models
from coevo.programs import Program
from coevo.runs import Budget, Run, State
from coevo.tasks import load_task, task_digest
from coevo.trajectories import synth
from coevo.trajectories.answers import read_answers
from coevo.trajectories.folder import read_manifest, read_trajectories
from coevo.trajectories.found import fold
from coevo.trajectories.rows import Trajectory
from coevo.trajectories.sampling import Sampler
from coevo.trajectories.splits import family_of, split_of
from coevo.trajectories.synth import Setup, SynthResult, begin, resume
from tests.trajectories import world
from tests.trajectories.world import config, make_task, make_tasks, reply, script


def synthesize(tasks: list[str], out: Path, **settings: Any) -> SynthResult:
    return synth.synthesize(tasks, out=out, **({"settings": config(), "pool": "inline"} | settings))


def rows_of(folder: Path, split: str = "train") -> list[Trajectory]:
    return list(read_trajectories(folder, split=split))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, SynthResult]:
    """Four tasks, twelve samples each, and a search of one of them."""
    root = tmp_path_factory.mktemp("made")
    tasks = make_tasks(root / "tasks")
    found = world.search(load_task(tasks[0]), root / "search", models=(script(root),))
    result = synthesize(tasks, root / "out", models=(script(root),), runs=(str(found),))
    return root, result


def test_rows_of_both_sources(made) -> None:
    root, result = made
    rows = rows_of(root / "out")
    assert len(rows) == result.rows["train"]
    sources = Counter(row.state.source for row in rows)
    assert set(sources) == {Source.SYNTH, Source.SEARCH}
    for row in rows:
        task = load_task(root / "tasks" / row.state.task)
        assert row.task_digest == task_digest(task) and row.statement == task.config.statement
        assert row.messages[1].content.startswith("# Task\n\n" + task.config.statement.strip())
        current = row.state.context.parent
        assert current.fitness is not None and current.fitness == current.correctness
        assert current.program.source.strip() in row.messages[1].content
        assert row.state.headroom == pytest.approx(1.0 - current.fitness)
        if row.state.source is Source.SYNTH:
            assert row.next is None and row.state.depth == 0 and not row.state.known
            assert 1 <= len(row.state.context.history) <= 3
            assert row.origin in ("start program", "scripted:script-19-0.0.jsonl")
        else:
            assert row.origin == "search" and row.step and row.outcome
    assert any(row.gain and row.gain > 0 for row in rows)
    assert len({row.id for row in rows}) == len(rows)


def test_counts_add_up(made) -> None:
    root, result = made
    answers = result.counts["answers"]
    assert answers["start_programs"] == 4 and answers["answers"] == 48
    assert sum(n for name, n in answers.items() if name not in ("start_programs", "answers")) == 48
    samples = result.counts["samples"]
    pool = answers["scored"] + answers["failed"] + 4
    dropped = ("copy", "alike", "too_near", "too_far", "too_many", "no_history")
    assert samples["rows"] == pool - sum(samples.get(name, 0) for name in dropped)
    card = (root / "out/README.md").read_text()
    assert f"| answers | scored | {answers['scored']} |" in card
    manifest = read_manifest(root / "out")
    assert manifest["counts"] == result.counts
    assert [task["name"] for task in manifest["tasks"]] == ["add", "mul", "sub", "big"]


def test_prompts_hold_nothing_hidden(made) -> None:
    root, _ = made
    for row in rows_of(root / "out"):
        text = row.messages[1].content
        assert "headroom" not in text and "9, -2" not in text and "reference" not in text


def test_a_finished_run_resumes_to_the_same(made) -> None:
    root, result = made
    before = (root / "out/data/train-00000-of-00001.parquet").read_bytes()
    with resume(root / "out") as synthesis:
        again = synthesis.go()
    assert again.rows == result.rows and again.counts == result.counts
    assert (root / "out/data/train-00000-of-00001.parquet").read_bytes() == before
    with Run.open(root / "out", write=False) as run:
        assert run.kind == "synth" and run.state() is State.FINISHED
        assert run.ledger.by_purpose()["synth"]["settled"] == 52


def test_parts_of_the_settings_reach_the_data(tmp_path: Path) -> None:
    tasks, model = make_tasks(tmp_path / "tasks", ("add", "mul")), script(tmp_path)

    def rows(name: str, **changes: Any) -> list[Trajectory]:
        synthesize(tasks, tmp_path / name, models=(model,), settings=config(samples=8, **changes))
        return rows_of(tmp_path / name)

    base = rows("base")
    others = {
        "seed": {"seed": 5},
        "styles": {"arrange": {"styles": {"diff": 1.0}}},
        "right": {"mix": {"right": 0.5}},
        "order": {"mix": {"right": None, "order": "easy_first"}},
    }
    found = {name: rows(name, **changes) for name, changes in others.items()}
    assert all(found[name] != base for name in others)
    assert {row.state.style.value for row in found["styles"]} == {"diff"}
    right = Counter(row.state.context.parent.correctness == 1 for row in found["right"])
    assert right[True] in (right[False], right[False] + 1)
    headroom = [row.state.headroom for row in found["order"]]
    assert headroom == sorted(headroom)
    assert sorted(row.id for row in found["order"]) == sorted(row.id for row in base)
    assert rows("batch", batch=3) == base
    rows("files", group_rows=2, shard_rows=4)
    files = read_manifest(tmp_path / "files")["splits"]["train"]["files"]
    assert len(files) > 1 and max(file["rows"] for file in files) == 4
    assert pq.ParquetFile(tmp_path / "files/data" / files[0]["name"]).num_row_groups == 2


def test_asking_from_the_statement_or_to_rewrite(tmp_path: Path) -> None:
    tasks, model = make_tasks(tmp_path / "tasks", ("add",)), script(tmp_path)

    def prompts(ask: dict[str, float], **changes: Any) -> set[str]:
        name = "-".join(ask) + "".join(changes)
        with begin(
            Setup.of(tasks, models=(model,), pool="inline", settings=config(ask=ask, **changes)),
            Budget(),
            tmp_path / name,
        ) as synthesis:
            synthesis.go()
            return {str(row["prompt_tokens"]) for _, row in synthesis.run.completions()}

    write, rewrite = prompts({"write": 1.0}), prompts({"rewrite": 1.0})
    assert len(write) == len(rewrite) == 1 and write != rewrite
    assert prompts({"write": 1.0, "rewrite": 1.0}) == write | rewrite


def test_what_does_not_fit_the_prompt_is_counted(tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks", "add", statement="Add. " * 400)
    with pytest.raises(UsageError, match="too large 12"):
        synthesize([str(task.folder)], tmp_path / "out", models=(script(tmp_path),), settings=config(prompt_chars=1000))


# Budget


def test_a_spent_budget_gives_less_and_can_be_raised(tmp_path: Path) -> None:
    tasks, model = make_tasks(tmp_path / "tasks"), script(tmp_path)
    whole = synthesize(tasks, tmp_path / "whole", models=(model,))
    part = synthesize(tasks, tmp_path / "part", models=(model,), budget=Budget(evaluations=15))
    assert "evaluations=15" in part.stop and 0 < part.rows["train"] < whole.rows["train"]
    with Run.open(tmp_path / "part", write=False) as run:
        assert run.ledger.spent()["evaluations"] == 15 and run.state() is State.STOPPED
    with resume(tmp_path / "part", budget=Budget(evaluations=500)) as synthesis:
        rest = synthesis.go()
    assert not rest.stop and rest.rows == whole.rows
    file = "data/train-00000-of-00001.parquet"
    assert (tmp_path / "part" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize("budget", [Budget(tokens=3000), Budget(usd=0.003), Budget(proposals=9)])
def test_other_bounds_hold(tmp_path: Path, budget: Budget) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add", "mul"))
    model = script(tmp_path) + ",price_in=1,price_out=1"
    result = synthesize(tasks, tmp_path / "out", models=(model,), budget=budget)
    assert result.stop and result.rows["train"]
    with Run.open(tmp_path / "out", write=False) as run:
        spent = run.ledger.spent()
        assert spent["tokens"] > 0 and spent["usd"] == pytest.approx(spent["tokens"] * 1e-6)
        assert all(spent[name] <= limit for name, limit in budget.model_dump(exclude_none=True).items())


def test_a_budget_that_buys_nothing(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add",))
    with pytest.raises(BudgetSpent, match="tokens=10"):
        synthesize(tasks, tmp_path / "out", models=(script(tmp_path),), budget=Budget(tokens=10))


# Answers that exist


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


ANSWERS = [
    {"task": "add", "program": "def solve(a, b):\n    return a + b\n"},
    {"task": "add", "program": {"program.py": "def solve(a, b):\n    return b\n"}},
    {"task": "add", "response": reply("a - b")},
    {"task": "add", "response": "Sorry, no."},
    {"task": "add", "program": "def solve(a, b):\n    return '\udc80'\n"},
    {"task": "add", "program": {"other.py": "x = 1"}},
    {"task": "add", "program": "  \n"},
    {"task": "elsewhere", "program": "x = 1"},
    {"task": "add", "program": "def solve(a, b)\n"},
]


def test_answers_from_a_file(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add",))
    file = write_jsonl(tmp_path / "answers.jsonl", ANSWERS)
    result = synthesize(tasks, tmp_path / "out", answers=(file,))
    assert result.counts["answers"] == {
        "start_programs": 1,
        "answers": 8,
        "scored": 3,
        "failed": 1,
        "no_code": 1,
        "bad_text": 1,
        "unknown_file": 1,
        "empty": 1,
        "other_task": 1,
    }
    assert {row.origin for row in rows_of(tmp_path / "out")} <= {"answers.jsonl", "start program"}
    table = pa.Table.from_pylist([{"task": "add", "program": row["program"]} for row in ANSWERS[:1]] * 3)
    pq.write_table(table, tmp_path / "more.parquet")
    both = synthesize(tasks, tmp_path / "both", answers=(file, tmp_path / "more.parquet"))
    assert both.counts["answers"]["scored"] == 6 and both.counts["samples"]["copy"] == 3
    with resume(tmp_path / "both") as synthesis:
        assert synthesis.go().counts == both.counts
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ConfigError, match="has changed since this run was made"), resume(tmp_path / "out"):
        pass


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "row 2: not JSON"),
        ("[1]", r"row 2: a row is an object"),
        ('{"program": "x"}', "row 2: 'task' must be the name of a task, not None"),
        ('{"task": "add"}', "row 2: give either 'program' or 'response', not none"),
        ('{"task": "add", "program": "x", "response": "y"}', "not both"),
        ('{"task": "add", "program": 3}', "row 2: 'program' must be text"),
        ('{"task": "add", "response": ["x"]}', "row 2: 'response' must be text"),
        ('{"task": "add", "program": {"a.py": 1}}', "row 2: 'program' must be text"),
    ],
)
def test_bad_answers_are_named_by_row_before_any_work(tmp_path: Path, line: str, said: str) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add",))
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps(ANSWERS[0]) + "\n" + line + "\n")
    with pytest.raises(UsageError, match=said):
        synthesize(tasks, tmp_path / "out", answers=(file,))
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.jsonl or \.parquet"):
        next(read_answers(tmp_path / "answers.csv"))
    with pytest.raises(UsageError, match="cannot read the answers"):
        next(read_answers(tmp_path / "answers.jsonl"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UsageError, match=r"cannot read the answers .*bad\.parquet"):
        next(read_answers(tmp_path / "bad.parquet"))
    tasks = make_tasks(tmp_path / "tasks", ("mul",))
    with pytest.raises(UsageError, match="no row is about one of the 1 tasks given"):
        synthesize(tasks, tmp_path / "out", answers=(write_jsonl(tmp_path / "a.jsonl", ANSWERS),))


# Splits and contamination


def test_splits_go_by_family_whatever_else_there_is(tmp_path: Path) -> None:
    tasks = [make_task(tmp_path, name, statement="Do it.") for name in ("add", "add_2", "mul", "sub")]
    tagged = make_task(tmp_path, "big", tags="tags: [easy, 'family:sums']\n")
    assert family_of(tagged) == "sums" and family_of(load_task("circle_packing:n=5")) == "circle_packing"
    splits = config(splits={"validation": 0.3, "test": 0.2}).splits
    several = [load_task(f"circle_packing:n={n}") for n in range(3, 9)]
    assert len({split_of(task, splits, seed=1) for task in several}) == 1
    by_task = splits.model_copy(update={"by": "task"})
    assert len({split_of(task, by_task, seed=1) for task in several}) > 1
    found = [split_of(tasks[0], splits, seed=seed) for seed in range(2000)]
    share = Counter(found)
    assert abs(share["validation"] / 2000 - 0.3) < 0.04 and abs(share["test"] / 2000 - 0.2) < 0.04


def contaminated(folder: Path, seeds: range) -> tuple[list[str], int]:
    """Tasks of which two say the same, and a seed that puts these two into different splits."""
    names = ("add", "add_2", "mul", "sub")
    tasks = [make_task(folder, name, statement=world.STATEMENTS["add"] if name == "add_2" else "") for name in names]
    splits = config(splits={"validation": 0.5}).splits
    for seed in seeds:
        found = [split_of(task, splits, seed=seed) for task in tasks]
        if found[:2] == ["train", "validation"] and found[2] == "train":
            return [str(task.folder) for task in tasks], seed
    raise AssertionError("no seed")


def test_what_gives_a_held_out_task_away_is_removed_and_listed_or_refused(tmp_path: Path) -> None:
    tasks, seed = contaminated(tmp_path / "tasks", range(200))
    settings = config(seed=seed, splits={"validation": 0.5})
    result = synthesize(tasks, tmp_path / "out", models=(script(tmp_path),), settings=settings)
    whole = [found for found in result.removed if found["what"] == "statement"]
    assert whole == [
        {
            "task": "add",
            "what": "statement",
            "against": "add_2 (validation)",
            "why": "100% of runs of 13 words in common",
            "rows": whole[0]["rows"],
        }
    ]
    assert "add" not in {row.state.task for row in rows_of(tmp_path / "out")}
    right = {
        row.state.context.parent.program.id
        for row in rows_of(tmp_path / "out", "validation")
        if row.state.context.parent.correctness == 1
    }
    assert right and not right & {row.state.context.parent.program.id for row in rows_of(tmp_path / "out")}
    assert result.counts["writing"]["contaminated"] == sum(found["rows"] for found in result.removed)
    assert "statement of task `add`" in (tmp_path / "out/README.md").read_text()
    with pytest.raises(GateBlocked, match="statement of task 'add'"):
        synthesize(tasks, tmp_path / "strict", models=(script(tmp_path),), settings=settings, strict=True)
    assert not (tmp_path / "strict/coevo.json").exists()
    off = settings.model_copy(
        update={"contamination": settings.contamination.model_copy(update={"statements": False, "programs": False})}
    )
    free = synthesize(tasks, tmp_path / "free", models=(script(tmp_path),), settings=off, strict=True)
    assert not free.removed and "add" in {row.state.task for row in rows_of(tmp_path / "free")}


def test_against_tasks_searches_and_data_sets(made, tmp_path: Path) -> None:
    root, _ = made
    tasks = make_tasks(tmp_path / "tasks", ("add", "mul"))

    def kept(name: str, against: str) -> set[str]:
        result = synthesize(tasks, tmp_path / name, models=(script(tmp_path),), against=(against,))
        assert result.removed
        return {row.state.task for row in rows_of(tmp_path / name)}

    assert kept("task", tasks[1]) == {"add"}
    assert kept("search", str(root / "search")) == {"mul"}
    with pytest.raises(UsageError, match="contaminated"):
        kept("set", str(root / "out"))


# Trouble


class Faulty(InlinePool):
    """A machine that fails on one program."""

    def __init__(self, tasks: list, bad: set[str]) -> None:
        super().__init__(partial(Judges, tasks))
        self.bad = bad

    def submit(self, fn: Any, *args: Any, deadline_s: float | None = None) -> Future[Any]:
        if fn is measure and args[1].id in self.bad:
            future: Future[Any] = Future()
            future.set_exception(InfrastructureError("the worker died"))
            return future
        return super().submit(fn, *args, deadline_s=deadline_s)


def sampled(tmp_path: Path, bad: set[str], samples: int = 19) -> Sampler:
    task = make_task(tmp_path / "tasks", "add")
    settings = config(samples=samples, model_failures=3)
    run = Run.create(tmp_path / f"run-{len(bad)}", kind="synth", config={}, budget=Budget())
    models = open_models([script(tmp_path) + ",order=number"])
    with run, Faulty([task], bad) as pool:
        sampler = Sampler(run, [task], settings, pool=pool, models=models)
        sampler.go()
    return sampler


def test_unmeasured_is_dropped_and_counted_never_zero(tmp_path: Path) -> None:
    bad = Program.of("def solve(a, b):\n    return a + b\n").id
    sampler = sampled(tmp_path, {bad})
    assert sampler.found.counts["unmeasured"] == 1
    assert bad not in {answer.program for answer in sampler.found.answers[0]}
    with Run.open(tmp_path / "run-1", write=False) as run:
        assert fold(run).counts == sampler.found.counts
        assert run.evaluation(bad, split="public", seed=0) is None
        row = next(e.payload for e in run.events(kinds=("answer",)) if e.payload["outcome"] == "unmeasured")
        assert row["detail"] == "the worker died" and "fitness" not in row


def test_a_machine_that_measures_nothing_ends_it(tmp_path: Path) -> None:
    bad = {Program.of(f"def solve(a, b):\n    return {e}\n").id for e in world.EXPRESSIONS}
    with pytest.raises(InfrastructureError, match=r"12 programs in a row could not be measured.*coevo resume"):
        sampled(tmp_path, bad)


def test_a_model_that_is_down_ends_it_and_can_be_resumed(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add",))
    path = tmp_path / "down.jsonl"
    path.write_text('{"error": "endpoint is down"}\n')
    model = f"scripted:{path},max_tokens=100"
    with pytest.raises(ModelError, match=r"4 requests in a row got no reply; the last: .*endpoint is down"):
        synthesize(tasks, tmp_path / "out", models=(model,), settings=config(model_failures=4))
    with Run.open(tmp_path / "out", write=False) as run:
        assert run.state() is State.STOPPED and fold(run).counts["model_failed"] == 4


def test_what_cannot_work_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    tasks = make_tasks(tmp_path / "tasks", ("add",))
    with pytest.raises(UsageError, match="nothing to synthesize from"):
        synthesize(tasks, tmp_path / "out")
    with pytest.raises(UsageError, match="needs tasks"):
        synthesize([], tmp_path / "out", models=(script(tmp_path),))
    with pytest.raises(StoreError, match="does not exist"):
        synthesize(tasks, tmp_path / "out", runs=(str(tmp_path / "nowhere"),))
    found = world.search(load_task(tasks[0]), tmp_path / "search", steps=4)
    other = make_task(tmp_path / "elsewhere", "add", statement="Another task of this name.")
    with pytest.raises(UsageError, match="is not the task of that name given elsewhere"):
        synthesize([str(other.folder)], tmp_path / "out", runs=(str(found),))
    assert not (tmp_path / "out").exists()
    with pytest.raises(StoreError, match="not a synthesis"), resume(found):
        pass
    synthesize(tasks, tmp_path / "out", models=(script(tmp_path),))
    make_task(tmp_path / "tasks", "add", statement="Changed.")
    with pytest.raises(ConfigError, match="the tasks have changed"), resume(tmp_path / "out"):
        pass


def test_searches_alone_need_no_tasks(tmp_path: Path) -> None:
    task = make_task(tmp_path / "tasks", "add")
    found = world.search(task, tmp_path / "search", models=(script(tmp_path),), steps=12)
    result = synthesize([], tmp_path / "out", runs=(str(found),), settings=config(lineage={"per_run": 5}))
    assert result.rows == {"train": 5} and result.counts["searches"]["per_run"] > 0
