"""`coevo lab`: an autonomous trainer that co-evolves a policy and the harness that trains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import lab_more, output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coevo.lab.driver import Outcome
    from coevo.lab.settings import LabConfig
    from coevo.runs import Budget

app = typer.Typer(
    help="Propose one change at a time to how a policy is trained, train it, judge it by a calibrated gate, keep what holds.",
    no_args_is_help=True,
)
app.command("demo")(lab_more.demo)
app.command("compare")(lab_more.compare)

Lab = Annotated[Path, typer.Argument(help="The lab's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file with the lab's settings (coevo config lab).")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE, as in recipe.trainer=toy or budget.rounds=6.")
]


@app.command()
def new(lab: Lab, config: Config = None, sets: Sets = None, json: Json = False) -> None:
    """Make a lab: its folder, its harness repository, its seals. Trains nothing; says what the budget buys."""
    from coevo.lab.driver import new_lab
    from coevo.lab.preflight import preflight

    found = settings(config, sets or [])
    new_lab(found, lab, notify=_quiet if json else _say)
    plan = preflight(found)
    if json:
        output.print_json({"lab": lab, **plan.to_dict()})
        return
    for line in plan.lines():
        print(line)
    output.print_facts({"lab": lab, "harness": lab / "harness", "next": f"coevo lab run {lab}"})


@app.command()
def run(lab: Lab, config: Config = None, sets: Sets = None, json: Json = False) -> None:
    """Run a lab to its report; a new one, where there is none at this place yet."""
    from coevo.lab.driver import new_lab, run_lab

    notify = _quiet if json else _say
    if not (lab / "run.db").exists():
        new_lab(settings(config, sets or []), lab, notify=notify)
    elif config is not None or sets:
        require_its_own(lab, settings(config, sets or []))
    finish(run_lab(lab, notify=notify), json=json)


@app.command()
def resume(
    lab: Lab,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="A new bound of the whole lab, as in budget.rounds=9 or budget.usd=20."),
    ] = None,
    json: Json = False,
) -> None:
    """Go on with a lab where it stopped or was killed; or, given more to spend, where it had ended."""
    go_on(lab, budget=new_budget(sets or []), json=json)


@app.command()
def status(lab: Lab, json: Json = False) -> None:
    """Where a lab stands: rounds, branches, verdicts, what comes next. Safe while it runs."""
    facts = status_of(lab)
    if json:
        output.print_json(facts)
        return
    output.print_table(
        ("round", "branch", "change", "state", "difference"),
        [
            (r["round"], r["branch"], r["change"], r["verdict"] or r["state"], r["difference"])
            for r in facts["branches"]
        ],
    )
    output.print_facts({name: value for name, value in facts.items() if name != "branches"})


@app.command()
def approve(
    lab: Lab,
    reject: Annotated[bool, typer.Option("--reject", help="Say no: the round promotes nothing.")] = False,
    json: Json = False,
) -> None:
    """Answer what a lab waits for (its setting `approve`)."""
    from coevo.lab.driver import approve as answer

    stage = answer(lab, yes=not reject)
    facts = {"stage": stage, "answer": "rejected" if reject else "approved", "next": f"coevo lab resume {lab}"}
    output.print_json(facts) if json else output.print_facts(facts)


@app.command()
def calibrate(lab: Lab, json: Json = False) -> None:
    """Train the first recipe and hold it against itself: how often the gate promotes nothing, and what gain it can see. Goes no further."""
    from coevo.lab.driver import calibrate_lab

    found = calibrate_lab(lab, notify=_quiet if json else _say)
    if json:
        output.print_json(found.to_dict())
        return
    output.print_facts(
        {
            "trials": found.trials,
            "false_promotions": found.false_promotions,
            "interval": f"{found.low:.4f} to {found.high:.4f}",
            "noise": found.noise,
            "detectable": found.detectable,
            **{f"power_at_{gain:g}": power for gain, power in found.power_at.items()},
        }
    )


def settings(config: Path | None, sets: list[str]) -> LabConfig:
    """From a file and assignments."""
    from coevo.config import parse, read_yaml, with_sets
    from coevo.lab.settings import LabConfig

    data = read_yaml(config) if config is not None else {}
    return parse(LabConfig, with_sets(data, sets), where=str(config) if config is not None else "lab settings")


def require_its_own(lab: Path, given: LabConfig) -> None:
    """Raise `UsageError` where settings are given to a lab that began with others."""
    from coevo.config import leaves
    from coevo.errors import UsageError
    from coevo.lab.driver import absolute_config, read_lab

    mine = dict(leaves(read_lab(lab)[0].model_dump(mode="json")))
    theirs = dict(leaves(absolute_config(given).model_dump(mode="json")))
    other = [name for name in theirs.keys() | mine.keys() if theirs.get(name) != mine.get(name)]
    if other:
        raise UsageError(
            f"{lab} is a lab already, and keeps the settings it began with; these have other values there: {', '.join(sorted(other)[:6])}. Run it without "
            f"--config and --set, give it more to spend by `coevo lab resume {lab} --set budget.rounds=N`, or name a new folder"
        )


def new_budget(sets: list[str]) -> dict[str, Any]:
    """Bounds by name. Raises `UsageError` for any other setting: those are sealed."""
    from coevo.config import with_sets
    from coevo.errors import UsageError

    data = with_sets({}, sets)
    found = data.pop("budget", {})
    if data or not isinstance(found, dict):
        raise UsageError(
            f"a lab keeps the settings it began with, {', '.join(data) or 'budget'} among them; what may change when it goes on is "
            "budget.rounds, budget.steps, budget.tokens, budget.usd and budget.minutes. For other settings make a new lab"
        )
    return found


def go_on(lab: Path, *, budget: Mapping[str, Any] | None = None, json: bool = False) -> None:
    """What `coevo resume` does with a lab; `budget`: bounds that change."""
    from coevo.lab.driver import run_lab
    from coevo.lab.reading import give

    if budget:
        give(lab, budget)
    finish(run_lab(lab, notify=_quiet if json else _say), json=json)


def bounds_of(limits: Budget) -> dict[str, Any]:
    """A run's budget as a lab's. Raises `UsageError` for what a lab does not count."""
    from coevo.errors import UsageError
    from coevo.lab.reading import PAID

    given = limits.model_dump(exclude_none=True)
    if other := sorted(given.keys() - set(PAID)):
        raise UsageError(
            f"a lab counts no {', '.join(other)}; give it {', '.join(PAID)}, or budget.rounds and budget.steps by `coevo lab resume LAB --set NAME=N`"
        )
    return given


def status_of(lab: Path) -> dict[str, Any]:
    """Plain data of a lab's state."""
    from coevo.lab.driver import read_lab
    from coevo.lab.report import rows_of
    from coevo.lab.rounds import next_action

    config, ledger = read_lab(lab)
    action = next_action(ledger, config)
    return {
        "branches": [row for number in range(len(ledger.branches)) for row in rows_of(ledger, number)],
        "lab": str(lab),
        "rounds": f"{ledger.rounds} of {config.budget.rounds}",
        "parent": ledger.parent or None,
        "steps": ledger.steps_spent,
        "failures": ledger.failures,
        "holdout_accesses": ledger.holdout,
        "calibrated": ledger.calibration is not None,
        "next": type(action).__name__.lower(),
        "waiting_for": ledger.waiting_for() or None,
    }


def finish(outcome: Outcome, *, json: bool) -> None:
    """Say how a sitting ended, and end with its exit code."""
    report = outcome.path / "artifacts" / "report.md"
    facts = {
        "lab": outcome.path,
        "ended": str(outcome.ended),
        "why": outcome.message,
        "rounds": outcome.ledger.rounds,
        "parent": outcome.ledger.parent,
        "steps": outcome.ledger.steps_spent,
        "report": report if report.exists() else None,
    }
    if outcome.ended != "finished":
        facts["next"] = f"coevo lab resume {outcome.path}"
    output.print_json(facts) if json else output.print_facts(facts)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def _say(line: str) -> None:
    print(line, flush=True)


def _quiet(line: str) -> None:
    pass
