"""The demonstration for a reader: one table, one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GATE, NAIVE = "gate", "keep-if-higher"


def rows(data: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Idea, what keep-if-higher said, what the gate said, and true ability after the round in both labs."""
    found = []
    for naive, gate in zip(data["labs"][NAIVE], data["labs"][GATE], strict=True):
        cells = []
        for row, metric in ((naive, "score"), (gate, "truth")):
            moved = "" if row.get("score") is None else f" ({metric} {row['score']:+.3f})"
            instead = "; more steps without it promoted" if row["kept"] and row["kept"] != row["branch"] else ""
            cells += [f"{row['verdict']}{moved}{instead}", f"{row['before']:.3f} -> {row['after']:.3f}"]
        found.append((f"{gate['idea']}: {gate['what']}", *cells))
    return found


HEADER = ("idea", "keep if higher", "true ability", "the gate", "true ability")


def ends(data: Mapping[str, Any]) -> dict[str, float]:
    """True ability at the end, by lab, and at the start."""
    return {"start": data["start"], **{name: lab[-1]["after"] for name, lab in data["labs"].items()}}


def diagnostic_line(data: Mapping[str, Any]) -> str:
    """What came of the search for a diagnostic."""
    found = data["diagnostic"]
    if not found["term"]:
        return found["reason"]
    sides = {
        known: [e["value"] for e in found["table"] if e["known"] == known and e["value"] is not None]
        for known in ("good", "bad")
    }
    ranges = "; ".join(f"{known} branches {min(v):.3g} to {max(v):.3g}" for known, v in sides.items() if v)
    return f"{found['term']}: {'admitted' if found['admitted'] else 'refused'}, {found['reason']} ({ranges})"


def markdown(data: Mapping[str, Any], command: str) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows(data)]
    end = ends(data)
    said = f"True ability at the start {end['start']:.4f}; at the end {end[NAIVE]:.4f} where the higher score was kept, {end[GATE]:.4f} with the gate."
    return "\n".join(
        [
            *lines,
            "",
            said,
            "",
            f"A new diagnostic, found in these branches: {diagnostic_line(data)}.",
            "",
            "```",
            command,
            "```",
            "",
        ]
    )


def draw(data: Mapping[str, Any], folder: Path) -> Sequence[Path]:
    """True ability round by round in both labs; empty without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.5, 3.8))
    for name, colour, said in (
        (GATE, "#0f8a7e", "what the gate promotes"),
        (NAIVE, "#b91c1c", "what scores higher is kept"),
    ):
        lab = data["labs"][name]
        xs, ys = range(len(lab) + 1), [lab[0]["before"], *(row["after"] for row in lab)]
        axes.plot(xs, ys, "o-", color=colour, lw=2, label=said)
        axes.annotate(f"{ys[-1]:.3f}", (xs[-1], ys[-1]), textcoords="offset points", xytext=(8, -3), color=colour)
    ideas = [row["idea"] for row in data["labs"][GATE]]
    axes.set_xticks(range(len(ideas) + 1), ["start", *ideas], fontsize=9)
    axes.set_ylabel("true ability (exact)")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.08)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    paths = [folder / "demo-lab.png", folder / "demo-lab.svg"]
    for path in paths:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths
