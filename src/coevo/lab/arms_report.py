"""What a comparison of arms says: a table, its data, and a picture. Everything is a function of the units' records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from coevo.lab.arms import SELF, ArmsConfig
from coevo.stats import bootstrap_ci, paired_permutation_p

Record = Mapping[str, Any]

WHAT = {
    "coevo": "the lab",
    "frozen_harness": "the lab; diagnostics, rules and skills stay as they are",
    "placebo": "the lab; interventions at random",
    "score_only": "keep what scores higher once",
    "human": "one recipe made by hand, the whole budget",
    "best_of_n": "seeds of the first recipe, the best by score",
}


def summary(config: ArmsConfig, records: Sequence[Record]) -> dict[str, Any]:
    """Plain data: settings, every record, and for each arm means over seeds with intervals and the paired difference from the lab."""
    arms = [_arm(config, name, records) for name in config.arms]
    return {"schema": 1, "config": config.model_dump(mode="json"), "arms": arms, "units": [dict(r) for r in records]}


def _arm(config: ArmsConfig, name: str, records: Sequence[Record]) -> dict[str, Any]:
    mine = {r["seed"]: r for r in records if r["arm"] == name}
    lab = {r["seed"]: r for r in records if r["arm"] == SELF}
    abilities = [r["ability"] for r in mine.values()]
    ability = bootstrap_ci(abilities, seed=config.lab.seed)
    promotions = sum(len(r["promotions"]) for r in mine.values())
    found: dict[str, Any] = {
        "arm": name,
        "what": WHAT[name],
        "seeds": len(mine),
        "ability": ability.estimate,
        "low": ability.low,
        "high": ability.high,
        "worst": min(abilities),
        "promotions": promotions,
        "invalid": sum(r["invalid"] for r in mine.values()),
        "rollouts": fmean(r["rollouts"] for r in mine.values()),
        "steps": fmean(r["steps"] for r in mine.values()),
        "wall_s": fmean(r["wall_s"] for r in mine.values()),
    }
    both = [seed for seed in mine if seed in lab]
    if name != SELF and both:
        apart = bootstrap_ci([lab[s]["ability"] - mine[s]["ability"] for s in both], seed=config.lab.seed)
        p = paired_permutation_p(
            [lab[s]["ability"] for s in both], [mine[s]["ability"] for s in both], seed=config.lab.seed
        )
        found |= {
            "lab_less_arm": apart.estimate,
            "lab_less_arm_low": apart.low,
            "lab_less_arm_high": apart.high,
            "p": p,
        }
    return found


def markdown(data: Mapping[str, Any], command: str) -> str:
    """The table for a reader."""
    seeds = max(arm["seeds"] for arm in data["arms"])
    lines = [
        (
            f"{seeds} seeds an arm; intervals are 95 % bootstrap over seeds, differences paired by seed. *Invalid* are promotions after which "
            "true ability was lower than before."
        ),
        "",
        "| arm | what it is | true ability at the end | the lab is better by | promotions | invalid | rollouts |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in data["arms"]:
        apart = ""
        if "lab_less_arm" in arm:
            apart = f"{arm['lab_less_arm']:+.4f} ({_number(arm['lab_less_arm_low'])} to {_number(arm['lab_less_arm_high'])}), p = {arm['p']:.2g}"
        lines.append(
            f"| `{arm['arm']}` | {arm['what']} | {arm['ability']:.4f} ({_number(arm['low'])} to {_number(arm['high'])}) | {apart} | {arm['promotions']} | "
            f"{arm['invalid']} | {arm['rollouts']:,.0f} |"
        )
    return "\n".join([*lines, "", "```", command, "```", ""])


def _number(value: float) -> str:
    return f"{value:.4f}" if value == value else "?"


def write(config: ArmsConfig, records: Sequence[Record], folder: Path, *, title: str, command: str) -> list[Path]:
    """README.md, results.json, and arms.png and arms.svg where matplotlib is there; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    data = summary(config, records)
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    files = [folder / "README.md", folder / "results.json"]
    drawn = draw(data, folder)
    picture = ["![True ability of every arm, and its promotions](arms.png)", ""] if drawn else []
    (folder / "README.md").write_text(
        "\n".join([f"# {title}", "", *picture, markdown(data, command)]), encoding="utf-8"
    )
    return [*files, *drawn]


def draw(data: Mapping[str, Any], folder: Path) -> list[Path]:
    """True ability by arm, each seed a dot; and promotions, invalid ones apart. Empty without matplotlib (extra `plot`)."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("agg")
    from matplotlib import pyplot

    arms = list(data["arms"])
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 0.5 * len(arms) + 1.4), sharey=True, width_ratios=(3, 2))
    places = range(len(arms))
    for place, arm in zip(places, arms, strict=True):
        mine = [unit["ability"] for unit in data["units"] if unit["arm"] == arm["arm"]]
        colour = "#c2410c" if arm["arm"] == SELF else "#64748b"
        left.plot(mine, [place] * len(mine), "o", ms=3, alpha=0.35, color=colour)
        left.plot([arm["ability"]], [place], "D", ms=6, color=colour)
        if arm["low"] == arm["low"]:
            left.plot([arm["low"], arm["high"]], [place, place], "-", lw=2, color=colour)
    valid = [arm["promotions"] - arm["invalid"] for arm in arms]
    right.barh(places, valid, color="#0f8a7e", label="true ability rose or stayed")
    right.barh(places, [arm["invalid"] for arm in arms], left=valid, color="#b91c1c", label="true ability fell")
    left.set_yticks(list(places), [arm["arm"] for arm in arms])
    left.invert_yaxis()
    left.set_xlabel("true ability of the final policy (dots: seeds; diamonds: means, 95 %)")
    right.set_xlabel("promotions, all seeds")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    paths = [folder / "arms.png", folder / "arms.svg"]
    for path in paths:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths
