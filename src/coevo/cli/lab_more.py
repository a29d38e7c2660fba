"""`coevo lab demo` and `coevo lab compare`: what a gate is worth, shown and measured."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from coevo.cli import output


def demo(
    out: Annotated[Path, typer.Option(help="Folder for both labs and the report.")] = Path("runs/demo-lab"),
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Six ideas, some honest and some not: what "keep what scores higher" keeps, and what the gate keeps. About a minute, no key."""
    from coevo.lab import demo_report
    from coevo.lab.demo import demo_lab

    command = f"coevo lab demo --seed {seed}"
    data = demo_lab(out, seed=seed, notify=(lambda line: None) if json else print)
    files = list(demo_report.draw(data, out))
    (out / "README.md").write_text(demo_report.markdown(data, command), encoding="utf-8")
    if json:
        output.print_json(data)
        return
    output.print_table(demo_report.HEADER, demo_report.rows(data))
    end = demo_report.ends(data)
    output.print_facts(
        {
            "ability_start": round(end["start"], 4),
            "ability_keep_if_higher": round(end[demo_report.NAIVE], 4),
            "ability_gate": round(end[demo_report.GATE], 4),
            "new_diagnostic": demo_report.diagnostic_line(data),
            "picture": files[0] if files else "none: pip install matplotlib (extra plot)",
            "again": command,
        }
    )


def compare(
    out: Annotated[Path, typer.Argument(help="Folder of the comparison; an unfinished one goes on.")],
    config: Annotated[Path | None, typer.Option(help="A YAML file: lab, arms, seeds, human, score, parallel.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, as in lab.recipe.trainer=toy or seeds=10.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder for table, data and picture (default: the comparison's artifacts).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """The lab, the lab with parts taken out, and what people do without one, at one budget of rollouts."""
    from coevo.config import parse, read_yaml, with_sets
    from coevo.lab import arms_report
    from coevo.lab.arms import ArmsConfig, compare_arms

    data = read_yaml(config) if config is not None else {}
    where = str(config) if config is not None else "settings of the comparison"
    found = parse(ArmsConfig, with_sets(data, sets or []), where=where)
    records = compare_arms(found, out, notify=(lambda line: None) if json else print)
    command = "coevo " + shlex.join(sys.argv[1:])
    files = arms_report.write(found, records, results or out / "artifacts", title="Arms at one budget", command=command)
    summary = arms_report.summary(found, records)
    if json:
        output.print_json(summary)
        return
    header = ("arm", "ability", "low", "high", "promotions", "invalid", "rollouts")
    output.print_table(header, [tuple(arm[name] for name in header) for arm in summary["arms"]])
    output.print_facts({"report": files[0]})
