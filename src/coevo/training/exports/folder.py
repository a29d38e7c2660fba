"""Writing exports: rows as they come, a reward file, a page that says how to use them; the folder appears when it is whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coevo.episodes.types import StartState
from coevo.errors import ConfigError, StoreError, UsageError, pick
from coevo.evolution.prompt import TaskView
from coevo.runs.jsontext import dumps
from coevo.tasks.types import Task
from coevo.training.exports import files
from coevo.training.exports import record as records
from coevo.training.settings import Recipe
from coevo.trajectories.folder import parquet, prompt_of

GROUP_ROWS = 500
"""Rows held at a time."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    rows: int
    skipped: dict[str, int] = field(default_factory=dict)
    """Start states that were left out, by reason."""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A form of export: its table, and the files beside it."""

    table: str
    """Path of the parquet file within the folder."""
    schema: Callable[[], Any]
    row: Callable[[StartState, list[dict[str, str]], str, int], dict[str, Any]]
    files: Mapping[str, str]
    """Path to text."""
    record: str = ""
    """Folder of `coevo.json`: beside the file that uses it."""
    grouped: bool = False
    """Its reward function sees whole groups and lengths of replies."""


def export(
    kind: str, states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe, out: str | Path
) -> Exported:
    """Write the states, with their prompts and the recipe's reward, to a new folder `out`.

    `kind` is trl, verl or verifiers. Raises `ConfigError` for a kind or a recipe that cannot be exported, `UsageError` for a folder that
    exists or no state that fits, `StoreError` where it cannot be written.
    """
    form = pick(kind, KINDS, kind="export")
    _require_possible(kind, form, recipe)
    target = Path(out)
    if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
        raise UsageError(f"{target} exists already; give a new folder")
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        record = records.record_of(kind, recipe, tasks)
        counts = _write_rows(part / form.table, form, states, tasks, recipe)
        if not counts.rows:
            raise UsageError(f"no start state could be exported: {counts.skipped or 'there was none'}")
        for name, text in form.files.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_text(text, encoding="utf-8")
        records.write(part / form.record, replace(record, counts={"rows": counts.rows, "skipped": counts.skipped}))
        if target.is_dir():
            target.rmdir()
        part.rename(target)
    except OSError as e:
        raise StoreError(f"cannot write the export {target}: {e.strerror or e}") from e
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return replace(
        counts, folder=target, files=tuple(sorted([form.table, *form.files, str(Path(form.record, records.FILE))]))
    )


def export_trl(states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe, out: str | Path) -> Exported:
    """A data set folder (`datasets.load_dataset(out)`) in conversational form, and `coevo_reward.py` with a reward function for
    `GRPOTrainer`."""
    return export("trl", states, tasks, recipe, out)


def export_verl(states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe, out: str | Path) -> Exported:
    """`train.parquet` for verl's `RLHFDataset`, and `coevo_reward.py` with `compute_score`."""
    return export("verl", states, tasks, recipe, out)


def export_verifiers(
    states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe, out: str | Path
) -> Exported:
    """A `verifiers` environment that can be installed: `load_environment()` and, for its version 1, a taskset."""
    return export("verifiers", states, tasks, recipe, out)


def _require_possible(kind: str, form: Kind, recipe: Recipe) -> None:
    if recipe.episode.name != "one_shot":
        raise ConfigError(
            f"export {kind}: episodes of several rounds need coevo's own trainer; set episode.name = one_shot"
        )
    wanting = [name for name in ("novelty", "length") if name in recipe.reward.parts and not form.grouped]
    if wanting:
        raise ConfigError(
            f"export {kind}: its reward function sees one reply's text at a time, so the part {wanting[0]!r} (which looks at "
            f"{'its group' if wanting[0] == 'novelty' else 'its length in tokens'}) cannot be computed there; leave it out"
        )


def _write_rows(
    path: Path, form: Kind, states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe
) -> Exported:
    """Stream the rows to a parquet file."""
    import pyarrow as pa

    schema, skipped, total = form.schema(), {}, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with parquet().ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _batched(_rows(form, states, tasks, recipe, skipped), GROUP_ROWS):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            total += len(group)
    return Exported(path, total, skipped)


def _rows(
    form: Kind, states: Iterable[StartState], tasks: Mapping[str, Task], recipe: Recipe, skipped: dict[str, int]
) -> Iterator[dict[str, Any]]:
    views: dict[str, TaskView] = {}
    number = 0
    for state in states:
        if state.task not in tasks:
            raise UsageError(f"start state {state.id} is about task {state.task!r}, which is not among the tasks given")
        view = views.setdefault(state.task, TaskView.of(tasks[state.task].config))
        try:
            messages = prompt_of(view, state, recipe.episode.prompt_chars)
        except UsageError:
            skipped["the prompt does not fit prompt_chars"] = skipped.get("the prompt does not fit prompt_chars", 0) + 1
            continue
        prompt = [{"role": m.role, "content": m.content} for m in messages]
        yield form.row(state, prompt, records.state_text(state), number)
        number += 1


def _batched(rows: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _prompt_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def _trl_schema() -> Any:
    import pyarrow as pa

    text = pa.string()
    columns = [("prompt", _prompt_type()), ("state", text), ("state_id", text), ("task", text), ("source", text)]
    return pa.schema([*columns, ("fitness", pa.float64()), ("depth", pa.int32())])


def _trl_row(state: StartState, prompt: list[dict[str, str]], text: str, number: int) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "state": text,
        "state_id": state.id,
        "task": state.task,
        "source": state.source.value,
        "fitness": state.context.parent.fitness,
        "depth": state.depth,
    }


def _verl_schema() -> Any:
    import pyarrow as pa

    text = pa.string()
    extra = [
        ("split", text),
        ("index", pa.int64()),
        ("state", text),
        ("task", text),
        ("source", text),
        ("depth", pa.int32()),
    ]
    return pa.schema(
        [
            ("data_source", text),
            ("prompt", _prompt_type()),
            ("ability", text),
            ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
            ("extra_info", pa.struct(extra)),
        ]
    )


def _verl_row(state: StartState, prompt: list[dict[str, str]], text: str, number: int) -> dict[str, Any]:
    return {
        "data_source": f"coevo/{state.task}",
        "prompt": prompt,
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": text},
        "extra_info": {
            "split": "train",
            "index": number,
            "state": state.id,
            "task": state.task,
            "source": state.source.value,
            "depth": state.depth,
        },
    }


def _verifiers_schema() -> Any:
    import pyarrow as pa

    return pa.schema(
        [("prompt", _prompt_type()), ("answer", pa.string()), ("info", pa.string()), ("task", pa.string())]
    )


def _verifiers_row(state: StartState, prompt: list[dict[str, str]], text: str, number: int) -> dict[str, Any]:
    return {"prompt": prompt, "answer": "", "info": dumps({"state": text}), "task": state.task}


KINDS: Mapping[str, Kind] = {
    "trl": Kind(
        "data/train-00000-of-00001.parquet",
        _trl_schema,
        _trl_row,
        {"coevo_reward.py": files.TRL, "README.md": files.TRL_PAGE},
        grouped=True,
    ),
    "verl": Kind(
        "train.parquet", _verl_schema, _verl_row, {"coevo_reward.py": files.VERL, "README.md": files.VERL_PAGE}
    ),
    "verifiers": Kind(
        "coevo_env/train.parquet",
        _verifiers_schema,
        _verifiers_row,
        {
            "coevo_env/__init__.py": files.VERIFIERS,
            "pyproject.toml": files.VERIFIERS_PROJECT,
            "README.md": files.VERIFIERS_PAGE,
        },
        record="coevo_env",
    ),
}
