"""The figures of a study, as PNG and SVG: evolve@k, what training does to copies and entropy, differences with intervals.

Needs the extra `plot` (matplotlib). Everything drawn is in the report's data; nothing is computed here but positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.pictures import INK, MUTED

COLOURS: Mapping[str, tuple[str, str]] = {
    "search": (INK, "-"),
    "best_of_n": ("#8a94a3", ":"),
    "self_refine": ("#8a94a3", "--"),
    "direct": ("#2563a8", "-"),
    "evolve_absolute": ("#0f8a7e", "-"),
    "evolve_metaevolve": ("#b8860b", "-"),
    "evolve_difference": ("#7c3aed", "-"),
    "evolve_lazy": ("#5a8f29", "-"),
    "evolve_search": ("#c2410c", "-"),
}
_SPARE = ("#be185d", "#0369a1", "#4d7c0f", "#6d28d9", "#92400e")

TRAINING = (
    ("fitness", "fitness of what it writes (dotted: on hidden tests)"),
    ("copy_rate", "copies of the parent, share of replies"),
    ("entropy", "entropy (nats per token)"),
    ("distinct_children", "different children in a group"),
)
"""What training does to a policy, by metric of the trainer: whether it learns, and whether it stops exploring."""
BESIDE = {"fitness": "truth"}
"""Drawn dotted beside it: a policy that learns to pass what it is shown must not look like one that learns."""


def figures(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw what there is to draw into `folder`; the paths of all files."""
    files: list[Path] = []
    if report["curves"]:
        files += _saved(_curves(report), folder / "evolve-at-k")
    if any(training["curves"] for training in report["training"]):
        files += _saved(_training(report), folder / "training")
    if report["differences"]:
        files += _saved(_differences(report), folder / "differences")
    return files


def _curves(report: Mapping[str, Any]) -> Any:
    """Above: the curves. Below: each less the untrained search's, paired by task and seed; bands for the arms of primary comparisons."""
    splits = list(report["curves"])
    named = {name for arm, other, _ in report["primary"] for name in (arm, other)} or {r["arm"] for r in report["arms"]}
    paired = any(drawn["difference"] for curves in report["curves"].values() for drawn in curves.values())
    figure, panels = _panels(len(splits), width=5.2, rows=2 if paired else 1)
    for column, split in enumerate(splits):
        suite, axes = report["suite"].get(split, {}), panels[column]
        kind = "families not trained on" if suite.get("unseen") else "families trained on" if report["training"] else ""
        for arm, drawn in report["curves"][split].items():
            colour, line = _style(arm, report)
            xs = range(len(drawn["points"]))
            axes.plot(xs, drawn["points"], line, color=colour, lw=2.2 if arm == "evolve_search" else 1.4, label=arm)
            if difference := drawn["difference"]:
                below = panels[len(splits) + column]
                if arm in named:
                    below.fill_between(xs, difference["low"], difference["high"], color=colour, alpha=0.13, lw=0)
                below.plot(xs, difference["points"], line, color=colour, lw=2.2 if arm == "evolve_search" else 1.4)
        title = ", ".join(filter(None, (f"{split}: {suite.get('tasks', '?')} tasks", kind)))
        _dress(axes, title, "" if paired else "evaluations (k)", "best public fitness so far")
        if paired:
            panels[len(splits) + column].axhline(0, color=INK, lw=0.8)
            _dress(panels[len(splits) + column], "", "evaluations (k)", "less the untrained search's")
    _legend(figure, panels[0])
    seeds = report["seeds"]
    _head(figure, f"evolve@k, mean over tasks and {seeds} seed{'s' if seeds > 1 else ''}; bands: 95 % over both")
    return figure


def _training(report: Mapping[str, Any]) -> Any:
    """Per metric, one line an arm: mean over seeds, with the range of the seeds."""
    drawn = [(name, label) for name, label in TRAINING if any(name in t["curves"] for t in report["training"])]
    columns = min(2, max(1, len(drawn)))
    figure, panels = _panels(columns, width=5.2, rows=-(-len(drawn) // columns) or 1)
    for (name, label), axes in zip(drawn, panels, strict=False):
        for arm in dict.fromkeys(t["arm"] for t in report["training"]):
            curves = [t["curves"][name] for t in report["training"] if t["arm"] == arm and name in t["curves"]]
            if not curves:
                continue
            steps, rows = _smooth(curves)
            colour, line = _style(arm, report)
            axes.fill_between(steps, [min(r) for r in rows], [max(r) for r in rows], color=colour, alpha=0.12, lw=0)
            axes.plot(steps, [sum(r) / len(r) for r in rows], line, color=colour, lw=1.6, label=arm)
            if beside := [
                t["curves"][BESIDE[name]]
                for t in report["training"]
                if t["arm"] == arm and BESIDE.get(name) in t["curves"]
            ]:
                steps, rows = _smooth(beside)
                axes.plot(steps, [sum(r) / len(r) for r in rows], ":", color=colour, lw=1.4)
        _dress(axes, label, "step of training", "")
        axes.set_ylim(bottom=0)
    for axes in panels[len(drawn) :]:
        axes.set_axis_off()
    _legend(figure, panels[0])
    _head(figure, "what training does to the policy (running mean of ten steps; shaded: all seeds)")
    return figure


def _differences(report: Mapping[str, Any]) -> Any:
    """Arm minus reference in verified fitness, with both intervals."""
    splits = list(dict.fromkeys(d["suite"] for d in report["differences"]))
    figure, panels = _panels(len(splits), width=5.2)
    for split, axes in zip(splits, panels, strict=True):
        rows = [d for d in report["differences"] if d["suite"] == split][::-1]
        for y, d in enumerate(rows):
            colour, _ = _style(d["arm"], report)
            estimate, low, high = d["interval"]
            _, inner_low, inner_high = d["over_tasks"]
            axes.plot([low, high], [y, y], color=colour, lw=1.4)
            axes.plot([inner_low, inner_high], [y, y], color=colour, lw=4, alpha=0.45, solid_capstyle="butt")
            axes.plot([estimate], [y], "o", color=colour, ms=6)
            axes.plot(d["by_seed"], [y] * len(d["by_seed"]), "|", color=INK, ms=7, alpha=0.6)
        axes.axvline(0, color=MUTED, lw=0.8)
        axes.set_yticks(range(len(rows)), [f"{d['arm']} - {d['other']}{' *' if d['primary'] else ''}" for d in rows])
        _dress(axes, split, "difference in verified fitness", "")
    _head(figure, "thin: 95 % over tasks and seeds; thick: over tasks; ticks: each seed; *: primary")
    return figure


def _smooth(curves: Sequence[Sequence[Sequence[float]]], window: int = 10) -> tuple[list[int], list[list[float]]]:
    """Steps that any seed has, and per step the seeds' running means."""
    means: dict[int, list[float]] = {}
    for curve in curves:
        values = [value for _, value in curve]
        for i, (step, _) in enumerate(curve):
            part = values[max(0, i - window + 1) : i + 1]
            means.setdefault(int(step), []).append(sum(part) / len(part))
    steps = sorted(means)
    return steps, [means[step] for step in steps]


def _panels(count: int, *, width: float, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure of rows x count panels, and the panels row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, 4.0 * rows if rows == 1 else 3.4 * rows), dpi=140, layout="constrained")
    return figure, list(figure.subplots(rows, count, squeeze=False).flat)


def _legend(figure: Any, panel: Any) -> None:
    """One for all panels, below them: inside, nine lines would hide the curves."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), fontsize=8, frameon=False)


def _head(figure: Any, text: str) -> None:
    figure.suptitle(text, fontsize=10, color=INK, x=0.01, ha="left")


def _style(arm: str, report: Mapping[str, Any]) -> tuple[str, str]:
    if arm in COLOURS:
        return COLOURS[arm]
    others = [row["arm"] for row in report["arms"] if row["arm"] not in COLOURS]
    return _SPARE[others.index(arm) % len(_SPARE)] if arm in others else MUTED, "-"


def _dress(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)
    axes.tick_params(colors=MUTED, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _saved(figure: Any, stem: Path) -> list[Path]:
    """Both formats. The SVG says neither when nor by which random ids it was made, so equal figures are equal files."""
    import matplotlib

    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png)
    with matplotlib.rc_context({"svg.hashsalt": "coevo"}):
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
