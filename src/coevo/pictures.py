"""Pictures of a search: the fitness curve, and for geometric tasks the answer before and after.

Needs the extra `plot` (matplotlib). Drawing never fails a run: callers get `None` and a reason.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.tasks.types import Task

INK, MUTED, ACCENT = "#1d2733", "#8a94a3", "#c2410c"
FAMILY_COLOURS = {"model": "#c2410c", "operator": "#2563a8", "start": "#1d2733"}


@dataclass(frozen=True)
class Point:
    """One scored candidate: its step, value (score or fitness, as the axis says), and what made it."""

    step: int
    value: float
    family: str
    """start, model or operator."""


@dataclass(frozen=True)
class Drawn:
    """An answer to draw: what the candidate returned, for which instance, and its title."""

    output: Any
    instance: dict[str, Any]
    title: str


def can_draw() -> str:
    """Empty when pictures can be made here, else the reason and the cure."""
    if importlib.util.find_spec("matplotlib") is None:
        return "no picture: matplotlib is not installed (pip install 'coevo[plot]')"
    return ""


def picture(
    path: Path,
    task: Task,
    points: Sequence[Point],
    *,
    label: str,
    better: str,
    drawn: Sequence[Drawn] = (),
    title: str = "",
) -> Path:
    """Write a PNG: best value so far over steps with every candidate as a dot, then each of `drawn`.

    `better` is "max" or "min". Answers are drawn only when the task folder has draw.py.
    """
    from matplotlib.figure import Figure

    draw = load_draw(task) if drawn else None
    panels = len(drawn) if draw else 0
    figure = Figure(figsize=(5.6 + 4.2 * panels, 4.4), dpi=140, layout="constrained")
    axes = figure.subplots(1, 1 + panels, squeeze=False, width_ratios=[1.35] + [1.0] * panels)[0]
    _curve(axes[0], points, label=label, better=better)
    for item, panel in zip(drawn, axes[1:], strict=False):
        if draw is not None:
            draw(item.output, item.instance, panel)
        panel.set_title("")  # A title of the task's own would stand across ours.
        panel.set_title(item.title, fontsize=10, color=INK, loc="left")
    if title:
        figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _curve(axes: Any, points: Sequence[Point], *, label: str, better: str) -> None:
    for family, colour in FAMILY_COLOURS.items():
        some = [p for p in points if p.family == family]
        if some:
            axes.plot(
                [p.step for p in some],
                [p.value for p in some],
                ".",
                ms=9 if family == "start" else 4,
                alpha=1.0 if family == "start" else 0.55,
                color=colour,
                label=f"{family} ({len(some)})",
            )
    axes.set_xlabel("candidate", color=INK, fontsize=9)
    choose: Callable[..., float] = max if better == "max" else min
    best, xs, ys = None, [], []
    for point in sorted(points, key=lambda p: p.step):
        best = point.value if best is None else choose(best, point.value)
        xs.append(point.step)
        ys.append(best)
    if xs:
        axes.step(xs, ys, where="post", color=INK, lw=1.6, label="best so far")
        low, high = window([p.value for p in points], ys, better)
        axes.set_ylim(low, high)
        outside = sum(not low <= p.value <= high for p in points)
        if outside:
            axes.set_xlabel(f"candidate ({outside} outside the picture)", color=INK, fontsize=9)
    axes.set_ylabel(f"{label} ({'higher' if better == 'max' else 'lower'} is better)", color=INK, fontsize=9)
    axes.tick_params(colors=MUTED, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if points:
        axes.legend(fontsize=8, frameon=False, loc="lower right" if better == "max" else "upper right")


def window(values: Sequence[float], best: Sequence[float], better: str) -> tuple[float, float]:
    """Limits of the value axis: all of the best-so-far curve, and below it at most twice its rise, so that the rise is seen.

    A curve that does not rise is shown with the better three quarters of the candidates.
    """
    sign = 1.0 if better == "max" else -1.0
    ordered = sorted(sign * v for v in values)
    start, end = sign * best[0], sign * best[-1]
    worst = start - 2 * (end - start) if end > start else ordered[len(ordered) // 4]
    worst = max(worst, ordered[0])
    pad = 0.06 * (end - worst) or 0.05 * abs(end) or 1.0
    low, high = sorted((sign * (worst - pad), sign * (end + pad)))
    return low, high


def load_draw(task: Task) -> Callable[[Any, dict[str, Any], Any], None] | None:
    """The task's own `draw`, if its folder has one. Trusted: it is the task author's code."""
    file = task.folder / "draw.py"
    if not file.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"coevo_draw_{task.name.replace('-', '_').replace('.', '_')}", file)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "draw", None)
