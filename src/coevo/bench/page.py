"""A study's report for people: tables as rows, and the Markdown page that is kept beside the code."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.bench import plots
from coevo.bench.metrics import METRICS
from coevo.bench.study import clock
from coevo.errors import StoreError
from coevo.pictures import can_draw

SHOWN = ("fitness", "gain", "right", "speedup", "improving", "copies", "repeats", "distinct", "novelty", "entropy")
"""Metrics of the main table; one that no arm has is left out."""
COST = ("evaluations", "tokens", "reply_tokens", "parsed")

Table = tuple[Sequence[str], list[Sequence[str]]]


def main_table(report: Mapping[str, Any], split: str, names: Sequence[str] = SHOWN) -> Table:
    """One row an arm."""
    rows = [row for row in report["table"] if row["split"] == split]
    kept = [name for name in names if any(row[name] is not None for row in rows)]
    return ("arm", "searches", *kept), [
        (row["arm"], _measured(row), *(_cell(row[name], METRICS[name].form) for name in kept)) for row in rows
    ]


def family_table(report: Mapping[str, Any], split: str) -> Table:
    """Verified fitness by family of tasks; empty where there are as many families as tasks, or one."""
    rows = report["families"].get(split, [])
    if len(rows) < 2 or all(row["tasks"] == 1 for row in rows):
        return ("family", "tasks"), []
    arms = list(rows[0]["fitness"])
    return ("family", "tasks", *arms), [
        (row["family"], str(row["tasks"]), *(_cell(row["fitness"][arm], ".3f") for arm in arms)) for row in rows
    ]


def difference_table(report: Mapping[str, Any], *, primary: bool) -> Table:
    """Comparisons with intervals over tasks and seeds."""
    headers = (
        "split",
        "arm - other",
        "difference",
        "95 % interval",
        "over tasks alone",
        "each seed",
        "p",
        "p (Holm)",
        "pairs",
    )
    rows = []
    for d in report["differences"]:
        if d["primary"] is primary:
            estimate, low, high = d["interval"]
            rows.append(
                (
                    d["suite"],
                    f"{d['arm']} - {d['other']}",
                    _signed(estimate),
                    f"{_signed(low)} to {_signed(high)}",
                    f"{_signed(d['over_tasks'][1])} to {_signed(d['over_tasks'][2])}",
                    " ".join(_signed(value) for value in d["by_seed"]),
                    _p(d["p"]),
                    _p(d["p_holm"]),
                    str(d["pairs"]),
                )
            )
    return headers, rows


def training_table(report: Mapping[str, Any]) -> Table:
    """What training cost, summed over seeds (the policy's own searches included, but in `sampled tokens`: those that gradients came
    from), and where it ended."""
    headers = (
        "arm",
        "runs",
        "steps",
        "evaluations",
        "tokens",
        "minutes",
        "sampled tokens",
        "copies, first to last",
        "entropy, first to last",
        "gain, first to last",
    )
    rows = []
    for arm in dict.fromkeys(t["arm"] for t in report["training"]):
        runs = [t for t in report["training"] if t["arm"] == arm]
        rows.append(
            (
                arm,
                str(len(runs)),
                "/".join(sorted({str(t["steps"]) for t in runs})),
                *(f"{sum(t['spent'].get(name, 0) for t in runs):,.0f}" for name in ("evaluations", "tokens")),
                f"{sum(t['seconds'] for t in runs) / 60:.1f}",
                f"{sum(_sampled(t) for t in runs):,.0f}",
                *(_first_last(runs, name) for name in ("copy_rate", "entropy", "gain")),
            )
        )
    return headers, rows


def probe_table(report: Mapping[str, Any]) -> Table:
    """Gain per reply with the prompt whole and spoilt."""
    headers = ("policy", "prompt", "states", "gain per reply", "improving", "copies", "what the part is worth (95 %)")
    names = {"true": "whole", "feedback": "feedback of another task", "history": "no earlier attempts"}
    return headers, [
        (
            row["arm"],
            str(names.get(row["variant"], row["variant"])),
            str(row["states"]),
            f"{row['gain']:.4f}",
            f"{row['improving']:.3f}",
            f"{row['copies']:.3f}",
            f"{_signed(row['loss'][0], 4)} ({_signed(row['loss'][1], 4)} to {_signed(row['loss'][2], 4)})"
            if row["loss"]
            else "",
        )
        for row in report["probes"]
    ]


def verdicts(report: Mapping[str, Any]) -> list[str]:
    """A sentence per primary comparison."""
    found = []
    for d in report["differences"]:
        if not d["primary"]:
            continue
        estimate, low, high = d["interval"]
        verb = "beats" if low > 0 else "is beaten by" if high < 0 else "cannot be told from"
        sure = "" if math.isnan(d["p_holm"]) else f", p = {_p(d['p_holm'])} after Holm"
        found.append(
            f"{d['arm']} {verb} {d['other']} on {d['suite']}: {_signed(estimate)} in verified fitness (95 % {_signed(low)} to {_signed(high)}, "
            f"{d['tasks']} tasks, {len(d['by_seed'])} seeds{sure})"
        )
    return found


def noise_sentences(report: Mapping[str, Any]) -> list[str]:
    return [
        f"On {split} ({d['tasks']} tasks, {d['seeds']} seeds) a difference of {d['effect']:.3f} in verified fitness is found with 80 % power at the "
        f"5 % level, if noise between searches were all (pilot on validation: two searches of one task differ by {d['sd_one']:.3f}); what "
        "training seeds and tasks add comes on top."
        for split, d in report["detectable"].items()
    ] or ["Unknown: no pilot was made, or it measured too little."]


def holdout_sentence(report: Mapping[str, Any]) -> str:
    """How often test splits were opened."""
    touched = report["holdout"]
    again = [t for t in touched if t["study"] > 1]
    if not touched:
        return "No arm has finished a test split yet."
    if again:
        names = ", ".join(
            sorted({f"{t['split']} for {t['arm']}, seed {t['seed']} ({t['study']} times)" for t in again})[:5]
        )
        return f"TOUCHED MORE THAN ONCE, by force: {names}. These numbers are not those of a first look."
    ever = max(t["ever"] for t in touched)
    return f"Every test split was opened once per arm and seed by this study ({len(touched)} accesses; at most {ever} of one split by anyone)."


def write(report: Mapping[str, Any], folder: Path, *, command: str) -> list[Path]:
    """results.json, the figures and README.md into `folder`. Raises `StoreError` where they cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = plots.figures(report, folder) if not can_draw() else []
        files = [folder / "results.json", folder / "README.md"]
        for file, text in zip(files, (_json(report), markdown(report, pictures, command=command)), strict=True):
            part = file.with_name(f".{file.name}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(file)
    except OSError as e:
        raise StoreError(
            f"cannot write the report to {folder}: {e.strerror or e}. The study itself is kept; free some space or give another "
            "--results, then run the same command again"
        ) from e
    return [*files, *pictures]


def markdown(report: Mapping[str, Any], pictures: Sequence[Path], *, command: str) -> str:
    """The page."""
    seconds = report["seconds"]
    made = f"Made by `{command}` (coevo {report['coevo']}, {clock(seconds['all'])} of work there; study `{report['study'][:12]}`)."
    parts = [f"# {report['title']}", f"{made} Generated; the numbers are in results.json, each with its runs."]
    if not report["complete"]:
        parts.append(f"**Not finished: {report['units']['done']} of {report['units']['planned']} units.**")
    parts += ["## What could be found at all", *noise_sentences(report)]
    if said := verdicts(report):
        parts += ["## The comparisons named beforehand", "\n".join(f"- {sentence}." for sentence in said)]
        parts.append(_md(difference_table(report, primary=True)))
    for split in dict.fromkeys(row["split"] for row in report["table"]):
        facts = report["suite"].get(split, {})
        kind = "families that no recipe trained on" if facts.get("unseen") else "families that recipes trained on"
        parts.append(f"## {split}: {facts.get('tasks')} tasks, {kind}")
        parts.append(f"Per search: {report['budget']}; {report['round']} replies a round.")
        parts += [
            _md(main_table(report, split)),
            _md(main_table(report, split, COST)),
            _md(family_table(report, split)),
        ]
    parts += [_picture(pictures, "evolve-at-k", "evolve@k"), "## Every arm against the untrained search"]
    parts += [_md(difference_table(report, primary=False)), _picture(pictures, "differences", "differences")]
    if report["training"]:
        parts += ["## Training", _md(training_table(report)), _picture(pictures, "training", "training")]
    if report["probes"]:
        parts += ["## Is feedback used? Is history?", _md(probe_table(report))]
    parts += ["## Arms", _md(_arms(report)), "## Holdout", holdout_sentence(report), "## Metrics"]
    parts.append("\n".join(f"- `{m.name}`: {m.what}" for m in METRICS.values()))
    return "\n\n".join(part for part in parts if part) + "\n"


def _arms(report: Mapping[str, Any]) -> Table:
    return ("arm", "policy", "search", "recipe, against the study's", "in words"), [
        (row["arm"], row["policy"], row["search"], row["recipe"], row["what"]) for row in report["arms"]
    ]


def _md(table: Table) -> str:
    headers, rows = table
    if not rows:
        return ""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _picture(pictures: Iterable[Path], stem: str, alt: str) -> str:
    return next((f"![{alt}]({path.name})" for path in pictures if path.name == f"{stem}.png"), "")


def _json(report: Mapping[str, Any]) -> str:
    """The report as JSON, one top-level entry a line. Searches are written column by column: a data frame takes them as they are."""
    searches = report["searches"]
    columns = {name: [row[name] for row in searches] for name in searches[0]} if searches else {}
    entries = {**_finite(report), "searches": _finite(columns)}
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items()) + "\n}\n"


def _finite(value: Any) -> Any:
    """NaN as null: JSON has no other word for what is not known."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def _first_last(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    """Means over seeds of the first and the last ten steps."""
    curves = [[value for _, value in t["curves"][name]] for t in runs if t["curves"].get(name)]
    if not curves:
        return ""
    first, last = (
        [sum(part) / len(part) for part in parts] for parts in ([c[:10] for c in curves], [c[-10:] for c in curves])
    )
    return f"{sum(first) / len(first):.3f} to {sum(last) / len(last):.3f}"


def _sampled(training: Mapping[str, Any]) -> float:
    """Tokens that the policy wrote in rollouts: mean length times rollouts, over the steps."""
    rollouts = dict(training["curves"].get("rollouts", ()))
    return sum(value * rollouts.get(step, 0) for step, value in training["curves"].get("length", ()))


def _measured(row: Mapping[str, Any]) -> str:
    return str(row["searches"]) if row["measured"] == row["searches"] else f"{row['measured']} of {row['searches']}"


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def _signed(value: float | None, digits: int = 3) -> str:
    return "?" if value is None or math.isnan(value) else f"{value:+.{digits}f}"


def _p(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"
