"""One picture of a lab: the branches round by round, what the gate said of each, and how much true ability the kept ones gained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.lab.ledger import START
from coevo.pictures import INK, MUTED, can_draw

FILE = "branches.png"
LOOKS: Mapping[str, tuple[str, str, str]] = {
    "promoted": ("#0f8a7e", "o", "promoted"),
    "rejected": ("#8a94a3", "o", "rejected: no gain"),
    "inconclusive": ("#d99a1c", "D", "inconclusive"),
    "invalid": ("#b91c1c", "X", "invalid: not what it claims"),
    "": ("#c8ced6", "s", "not judged (pruned, failed, unmeasured)"),
}
"""Verdict -> colour, mark, and what the legend says."""
_MOST_LETTERS = 34
_MOST_ROUNDS = 12
"""With more of them, changes are not written beside the branches."""


def heights(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Branch -> gain in truth over the start: that of what it was held against, and its measured difference to it (none: at its height)."""
    found = {START: 0.0}
    for row in rows:
        below = found.get(row["against"] or "", found.get(row["parent"], 0.0))
        found[row["branch"]] = below + (row["difference"] or 0.0)
    return found


def draw(data: Mapping[str, Any], path: Path) -> str:
    """Write the picture of a report's data; the reason why there is none, or nothing."""
    rows = data["rounds"]
    if reason := can_draw() or ("" if rows else "no picture: no round was made"):
        return reason
    from matplotlib.figure import Figure

    rounds = max(row["round"] for row in rows)
    figure = Figure(figsize=(min(24.0, max(7.5, 2.5 + 2.1 * rounds)), 5.2), dpi=130, layout="constrained")
    axes = figure.subplots()
    places = _places(rows)
    _edges(axes, rows, places, set(data["kept"]))
    for verdict, (colour, mark, _) in LOOKS.items():
        for row in (row for row in rows if _verdict(row) == verdict):
            _branch(axes, row, places, colour, mark)
    axes.plot(*places[START], "o", ms=9, color=INK, zorder=3)
    _labels(axes, rows, places, set(data["kept"]), written=rounds <= _MOST_ROUNDS)
    _frame(axes, rows, rounds)
    figure.suptitle(_title(data), fontsize=11, color=INK, x=0.01, ha="left")
    part = path.with_name(f".{path.name}")
    figure.savefig(part, metadata={"Software": None})
    part.replace(path)
    return ""


def _places(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Where branches stand: rounds from left to right, the branches of one beside each other, gain upwards."""
    up = heights(rows)
    found = {START: (0.0, 0.0)}
    for row in rows:
        same = [other["branch"] for other in rows if other["round"] == row["round"]]
        place = same.index(row["branch"]) - (len(same) - 1) / 2
        found[row["branch"]] = (row["round"] + place * 0.36 / max(1, len(same) - 1), up[row["branch"]])
    return found


def _verdict(row: Mapping[str, Any]) -> str:
    return row["verdict"] if row["verdict"] in LOOKS else ""


def _edges(
    axes: Any, rows: Sequence[Mapping[str, Any]], places: Mapping[str, tuple[float, float]], kept: set[str]
) -> None:
    for row in rows:
        if row["parent"] not in places:
            continue
        (x0, y0), (x1, y1) = places[row["parent"]], places[row["branch"]]
        ours = row["branch"] in kept
        axes.plot(
            [x0, x1],
            [y0, y1],
            "-",
            color=LOOKS["promoted"][0] if ours else "#dde1e6",
            lw=2.4 if ours else 0.9,
            zorder=1,
        )


def _branch(
    axes: Any, row: Mapping[str, Any], places: Mapping[str, tuple[float, float]], colour: str, mark: str
) -> None:
    x, y = places[row["branch"]]
    if row["difference"] is not None and row["low"] is not None and row["high"] is not None:
        base = y - row["difference"]
        axes.plot([x, x], [base + row["low"], base + row["high"]], "-", color=colour, lw=1.1, alpha=0.55, zorder=2)
    axes.plot(x, y, mark, ms=7, color=colour, zorder=3)


def _labels(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    places: Mapping[str, tuple[float, float]],
    kept: set[str],
    *,
    written: bool,
) -> None:
    """Names; of kept and invalid branches, and where few were tried, what was changed, one below the other at the foot of the round."""
    axes.annotate(START, places[START], textcoords="offset points", xytext=(-5, 9), ha="right", fontsize=8, color=INK)
    for row in rows:
        axes.annotate(
            row["branch"],
            places[row["branch"]],
            textcoords="offset points",
            xytext=(0, 7),
            ha="center",
            fontsize=7.5,
            color=INK if row["branch"] in kept else MUTED,
            fontweight="bold" if row["branch"] in kept else "normal",
        )
    if not written:
        return
    for number in {row["round"]: None for row in rows}:
        same = [row for row in rows if row["round"] == number]
        for place, row in enumerate(same):
            axes.annotate(
                f"{row['branch']} {_short(row['change'])}",
                (number, 0),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                xytext=(0, -32 - 10 * place),
                ha="center",
                fontsize=6.5,
                color=LOOKS[_verdict(row)][0] if _verdict(row) else MUTED,
                annotation_clip=False,
            )


def _frame(axes: Any, rows: Sequence[Mapping[str, Any]], rounds: int) -> None:
    axes.axhline(0, color="#dde1e6", lw=0.8, zorder=0)
    axes.set_xticks(range(rounds + 1), ["start", *(f"round {i}" for i in range(1, rounds + 1))], fontsize=8)
    axes.set_xlim(-0.4, rounds + 0.5)
    axes.set_ylabel("gain in truth over the start\n(gate's measurements added up)", fontsize=9, color=INK)
    axes.tick_params(colors=MUTED, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    there = {_verdict(row) for row in rows}
    for verdict, (colour, mark, said) in LOOKS.items():
        if verdict in there:
            axes.plot([], [], mark, color=colour, label=said)
    axes.plot([], [], "-", color=LOOKS["promoted"][0], lw=2.4, label="the way to the final policy")
    axes.legend(fontsize=7.5, frameon=False, loc="best")


def _title(data: Mapping[str, Any]) -> str:
    final = data["final"]
    name = f"Lab {data['lab']}: {len(data['rounds'])} branches"
    if "difference" not in final:
        return name
    return f"{name}; {final['start']} -> {final['final']} on the report split: truth {final['truth_start']:.3f} -> {final['truth_final']:.3f}"


def _short(text: str) -> str:
    """A change without the sections of its settings: `episode.temperature` is `temperature`."""
    text = re.sub(r"(?:\w+\.)+(\w+ =)", r"\1", text)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
