"""The data card: README.md of a data set, with the YAML that `datasets.load_dataset` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

SHOWN = 40
"""Tasks, removals and sources listed in the card; the manifest has all of them."""

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_COLUMNS = (
    ("id", "hash of the row's state and of what followed"),
    ("state", "hash of the start state: task, style, current program, earlier attempts"),
    ("task, task_digest, statement", "the task, the hash of its judge and programs, what it asks"),
    ("source", "`synth`: independent samples arranged as a history; `search`: the lineage of a recorded search"),
    ("style", "how `prompt` asks for the next program: rewrite, diff, crossover"),
    ("depth", "steps from the start program in its lineage (0 for samples)"),
    ("headroom", "best known fitness of the task (see Sources) less the current one; never in the prompt"),
    ("prompt", "the conversation up to the answer, as TRL's prompt-only format has it"),
    ("program, main, files", "the current program: hash of its normal form, main file, source texts"),
    ("fitness, correctness, efficiency, speedup, score, feedback", "how it did on public tests"),
    ("history, inspirations", "earlier attempts, worst first, and other programs shown; each as above"),
    ("rejected", "why the last reply for this program was rejected, if one was"),
    ("known", "hashes of programs that the search's archive held"),
    ("next, next_fitness, gain, outcome", "the program that followed, where one is known, and how it did"),
    ("origin, step, seed", "model, file or run it comes from; step in there; seed of its evaluation"),
)


def card(manifest: Mapping[str, Any]) -> str:
    """The text of README.md, a pure function of the manifest."""
    head = yaml.safe_dump(_front(manifest), sort_keys=False, allow_unicode=True, width=120)
    sections = [f"---\n{head}---\n\n# Trajectories of program evolution\n\n{_intro(manifest)}", _split_table(manifest)]
    sections.append("## Columns\n\n" + "\n".join(f"- `{name}`: {what}." for name, what in _columns()))
    sections += filter(None, (_origin(manifest), _rejections(manifest), _held_out(manifest), _tasks(manifest)))
    return "\n\n".join(sections) + "\n"


def _columns() -> list[tuple[str, str]]:
    return [("`, `".join(name.split(", ")), what) for name, what in _COLUMNS]


def _front(manifest: Mapping[str, Any]) -> dict[str, Any]:
    splits = manifest["splits"]
    rows = sum(split["rows"] for split in splits.values())
    front: dict[str, Any] = {
        "pretty_name": "Trajectories of program evolution",
        "license": "other",
        "license_name": "see-card",
        "language": ["en"],
        "tags": ["coevo", "code", "program-evolution", "reinforcement-learning"],
        "task_categories": ["text-generation"],
        "size_categories": [next((name for bound, name in _SIZES if rows < bound), "n>1M")],
    }
    if splits:
        paths = [{"split": split, "path": f"data/{split}-*.parquet"} for split in splits]
        front["configs"] = [{"config_name": "default", "data_files": paths}]
    return front


def _intro(manifest: Mapping[str, Any]) -> str:
    lines = [
        (
            "Each row is a start state of program evolution: a task, a current program with its fitness and feedback, and earlier "
            "attempts, worst first; where it is known, the program that followed. Made by coevo; every program was executed in a "
            "sandbox, and what could not be measured is not here."
        ),
        (
            "Licence: the rows hold statements of their tasks and texts written by models; both keep the terms under which they came "
            "(see the tasks and models below). Check them before passing the data on."
        ),
        'Load it with `datasets.load_dataset("FOLDER")`; column `prompt` is a conversation, ready for a chat template.',
    ]
    if command := manifest.get("command"):
        lines.append(f"Made by:\n\n```\n{command}\n```")
    if note := manifest.get("note"):
        lines.append(note)
    return "\n\n".join(lines)


def _split_table(manifest: Mapping[str, Any]) -> str:
    lines = [
        "## Splits\n",
        "| split | rows | tasks | right start programs | next known | sources |",
        "|---|---|---|---|---|---|",
    ]
    for name, split in manifest["splits"].items():
        sources = ", ".join(f"{source} {count:,}" for source, count in split["sources"].items())
        lines.append(
            f"| {name} | {split['rows']:,} | {split['tasks']:,} | {split['right']:,} | {split['with_next']:,} | {sources} |"
        )
    if not manifest["splits"]:
        lines.append("| none | 0 | 0 | 0 | 0 | |")
    return "\n".join(lines)


def _origin(manifest: Mapping[str, Any]) -> str:
    sources: Sequence[Mapping[str, Any]] = manifest.get("sources", ())
    if not sources:
        return ""
    lines = ["## Sources\n"]
    for source in sources[:SHOWN]:
        what = ", ".join(f"{key} {value}" for key, value in source.items() if key != "kind")
        lines.append(f"- {source['kind']}: {what}")
    if "seed" in manifest:
        lines.append(
            f"\nSeed {manifest['seed']}: of samples, evaluations (the row's `seed`), histories, splits and order."
        )
    if "headroom" in manifest:
        lines.append(f"\nHeadroom is measured from the {manifest['headroom']}.")
    if "settings" in manifest:
        text = yaml.safe_dump(manifest["settings"], sort_keys=False, width=120)
        lines.append(f"\nSettings:\n\n```yaml\n{text}```")
    return "\n".join(lines)


def _rejections(manifest: Mapping[str, Any]) -> str:
    counts: Mapping[str, Mapping[str, int]] = manifest.get("counts", {})
    if not counts:
        return ""
    lines = ["## Counts\n", "| stage | what | number |", "|---|---|---|"]
    lines += [
        f"| {stage} | {name.replace('_', ' ')} | {number:,} |"
        for stage, found in counts.items()
        for name, number in found.items()
    ]
    return "\n".join(lines)


def _held_out(manifest: Mapping[str, Any]) -> str:
    found = manifest.get("contamination")
    if not found:
        return ""
    lines = [f"## Contamination\n\n{found['rule']}\n"]
    removed = found["removed"]
    lines.append(f"Removed: {len(removed):,}.\n" if removed else "Nothing was found.")
    for item in removed[:SHOWN]:
        lines.append(f"- {item['what']} of task `{item['task']}` against `{item['against']}`: {item['why']}")
    if len(removed) > SHOWN:
        lines.append(f"- ... and {len(removed) - SHOWN:,} more in coevo.json")
    return "\n".join(lines)


def _tasks(manifest: Mapping[str, Any]) -> str:
    tasks: Sequence[Mapping[str, str]] = manifest.get("tasks", ())
    if not tasks:
        return ""
    lines = ["## Tasks\n", "| task | split | digest |", "|---|---|---|"]
    lines += [f"| {task['name']} | {task['split']} | `{task['digest'][:16]}` |" for task in tasks[:SHOWN]]
    if len(tasks) > SHOWN:
        lines.append(f"\n... and {len(tasks) - SHOWN:,} more, with whole digests, in coevo.json.")
    return "\n".join(lines)
