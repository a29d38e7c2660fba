"""`coevo reward audit`: what cheats would earn, before a policy finds out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.training.audit import AuditReport

app = typer.Typer(help="Rewards, looked at before training.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    pass


@app.command("audit")
def audit(
    recipe: Annotated[Path | None, typer.Argument(help="recipe.yaml; without one, the default recipe.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Judge the cheats on this task (kind function, with a reference). Repeatable."),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: reward.parts={lazy: 1}.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Replay planted cheats, judged by the real judge in the sandbox, against a recipe's reward.

    Ends with 0 when no cheat pays, 4 when one does (0 with allow_cheats).
    """
    from coevo.config import parse, read_yaml, with_sets
    from coevo.errors import GateBlocked
    from coevo.training.audit import TASKS
    from coevo.training.audit import audit as run_audit
    from coevo.training.settings import Recipe

    data = with_sets(read_yaml(recipe) if recipe else {}, sets or ())
    config = parse(Recipe, data, where=str(recipe or "the default recipe"))
    report = run_audit(config, tuple(task) if task else TASKS)
    if json:
        output.print_json(
            {"ok": report.ok, "findings": report.findings, "balances": report.balances, "warnings": report.warnings}
        )
    else:
        _print(report)
    if not report.ok and not config.allow_cheats:
        names = ", ".join(dict.fromkeys(finding.plant for finding in report.paying))
        raise GateBlocked(f"this reward pays for cheating: {names}. Training refuses it unless allow_cheats: true")


def _print(report: AuditReport) -> None:
    headers = ("plant", "what", "judged", "reward", "truth", "gain", "true gain", "advantage", "verdict")
    for balance in report.balances:
        print(f"\n{balance.task}, parent: {balance.parent}")
        rows = [
            (
                f.plant,
                f.role,
                f.outcome,
                _cell(f.reward),
                _cell(f.truth),
                _cell(f.gain),
                _cell(f.true_gain),
                _cell(f.advantage),
                f.verdict,
            )
            for f in report.findings
            if (f.task, f.parent) == (balance.task, balance.parent)
        ]
        output.print_table(headers, rows)
    print(
        "\nreward: what it earns. truth: what it would earn if hidden tests were seen. gain, true gain: of fitness, on public and hidden"
    )
    print("tests. advantage: in a group with one honest gain, all others honest failures.")
    for warning in report.warnings:
        print(f"warning: {warning}")
    output.print_facts(
        {
            "plants": len(report.findings),
            "leaks": sum(f.verdict == "leak" for f in report.findings),
            "paying": len(report.paying),
            "verdict": "no planted cheat pays" if report.ok else "cheating pays",
        }
    )


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
