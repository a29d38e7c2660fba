"""`coevo compare A B`: is B better than A, paired by task, and can these rows tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.gate.comparing import Paired

WORDS = {
    "promoted": "B is better than A",
    "rejected": "B is no better than A",
    "inconclusive": "these rows cannot tell",
    "unmeasured": "too little was measured to tell",
}


def compare(
    a: Annotated[str, typer.Argument(help="Rollouts of the old policy: a file, a folder, a run, or SOURCE:BRANCH.")],
    b: Annotated[str, typer.Argument(help="Rollouts of the new one, on the same tasks.")],
    metric: Annotated[str, typer.Option(help="truth, reward or fitness.")] = "truth",
    split: Annotated[
        str, typer.Option(help="Which rows; default: the first of holdout, eval, ... that both have.")
    ] = "",
    step: Annotated[int | None, typer.Option(help="Of what was measured at several steps; default: each last.")] = None,
    alpha: Annotated[float, typer.Option(min=0.0001, max=0.49, help="One-sided level.")] = 0.05,
    power: Annotated[float, typer.Option(min=0.01, max=0.99, help="Of the detectable effect.")] = 0.8,
    min_tasks: Annotated[int, typer.Option(min=2, help="With fewer, nothing is promoted.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Of the random sign patterns.")] = 0,
    require: Annotated[str, typer.Option(help="Exit with 4 unless the verdict is this, say promoted.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Difference of two sets of rollouts, with its interval, p-value, what could have been seen, and how many tasks would settle it."""
    from coevo.errors import GateBlocked, UsageError, pick
    from coevo.gate.comparing import compare_evidence
    from coevo.gate.types import Verdict

    pick(metric, {"truth": 1, "reward": 1, "fitness": 1}, kind="metric")
    if require:
        pick(require, {str(v): 1 for v in Verdict}, kind="verdict")
    if a == b:
        raise UsageError(f"A and B are both {a}; give two sets of rollouts")
    found = compare_evidence(
        a, b, metric=metric, split=split, step=step, alpha=alpha, power=power, min_tasks=min_tasks, seed=seed
    )
    if json:
        output.print_json(found.to_dict())
    else:
        _show(found)
    if require and found.verdict != require:
        raise GateBlocked(f"the verdict is {found.verdict}, not {require}: {'; '.join(found.reasons)}")


def _show(found: Paired) -> None:
    output.print_table(
        ("", "rollouts", f"mean {found.metric}", "measured", "unmeasured"),
        [
            ("A", found.a, _digits(found.mean_a), found.samples[0], f"{found.unmeasured[0]:.1%}"),
            ("B", found.b, _digits(found.mean_b), found.samples[1], f"{found.unmeasured[1]:.1%}"),
        ],
    )
    for warning in found.warnings:
        print(f"note: {warning}")
    level = f"{1 - 2 * found.alpha:.0%}"
    facts = {
        "split": found.split or None,
        "tasks": found.tasks,
        "difference": _signed(found.difference),
        "interval": f"{_signed(found.low)} to {_signed(found.high)} ({level})",
        "p": f"{found.p:.4g} one-sided, that B is no better; {found.p_worse:.4g}, that B is no worse",
        "detectable": _digits(found.detectable),
        "to_settle": f"about {found.to_settle} tasks" if found.to_settle else None,
        "why": "; ".join(found.reasons),
        "verdict": f"{found.verdict}: {WORDS.get(str(found.verdict), '')}",
    }
    output.print_facts(facts)


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.4f}"
