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
    from coevo.lab.preflight import preflight

    notify = _quiet if json else _say
    if not (lab / "run.db").exists():
        found = settings(config, sets or [])
        new_lab(found, lab, notify=notify)
        for line in preflight(found).lines():
            notify(line)
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
    """Where a lab stands: rounds, branches, verdicts, how long the rest takes, what comes next. Safe while it runs."""
    facts = status_of(lab)
    if json:
        output.print_json(facts)
        return
    _branches(facts["branches"])
    said = {name: value for name, value in facts.items() if name != "branches"}
    output.print_facts({**said, "next": f"{facts['next']} ({NEXT[facts['next']]})"})


@app.command()
def report(lab: Lab, json: Json = False) -> None:
    """What a lab found, what it kept and why, how to use it, how to do it again. Of one that has not ended: what there is so far."""
    data, files = report_of(lab)
    if json:
        output.print_json({**data, "files": files})
        return
    _branches(data["rounds"])
    _tell(data)
    output.print_facts({"lab": lab, "ended": data["ended"], **files})


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


NEXT = {
    "launch": "make a branch",
    "train": "train branches",
    "prune": "look whether a branch is hopeless",
    "diagnose": "diagnose a branch's rollouts",
    "calibrate": "hold the parent against itself, to know what the gate can see",
    "openround": "begin a round",
    "opengap": "name what no diagnostic had told",
    "proposediagnostic": "ask the agent for a diagnostic",
    "admitdiagnostic": "replay a proposed diagnostic on past branches",
    "propose": "ask the agent for changes",
    "backtest": "replay a change on recorded rollouts",
    "askapproval": "ask a person",
    "wait": "a person's answer: coevo lab approve LAB, or --reject",
    "judge": "measure a branch, and judge it",
    "endround": "end the round",
    "recordskills": "write down what helped",
    "escalate": "change the strategy after failed rounds",
    "report": "measure the final branch against the start, once",
    "finish": "nothing is left to do; coevo lab report LAB says what was found",
}
"""What comes next, in words."""


def status_of(lab: Path) -> dict[str, Any]:
    """Plain data of a lab's state."""
    from coevo.lab.driver import read_lab
    from coevo.lab.report import rows_of
    from coevo.lab.rounds import next_action
    from coevo.lab.telling import about, ahead, lineage
    from coevo.runs import Run

    config, ledger = read_lab(lab)
    action = next_action(ledger, config)
    with Run.open(lab, write=False) as opened:
        minutes = opened.ledger.spent()["minutes"]
    return {
        "branches": [row for number in range(len(ledger.branches)) for row in rows_of(ledger, number)],
        "lab": str(lab),
        "rounds": f"{ledger.rounds} of {config.budget.rounds}",
        "parent": ledger.parent or None,
        "kept": lineage(ledger, ledger.parent)[1:] if ledger.parent else [],
        "steps": ledger.steps_spent,
        "time": about(minutes),
        "left": ahead(ledger, config, minutes) or None,
        "failures": ledger.failures,
        "holdout_accesses": ledger.holdout,
        "calibrated": ledger.calibration is not None,
        "next": type(action).__name__.lower(),
        "waiting_for": ledger.waiting_for() or None,
    }


def finish(outcome: Outcome, *, json: bool) -> None:
    """Say how a sitting ended, and end with its exit code."""
    facts: dict[str, Any] = {
        "lab": outcome.path,
        "ended": str(outcome.ended),
        "why": outcome.message,
        "rounds": outcome.ledger.rounds,
        "parent": outcome.ledger.parent,
        "steps": outcome.ledger.steps_spent,
        "report": None,
    }
    if outcome.ended == "finished":
        data, files = report_of(outcome.path)
        facts |= {**files, "final": data["final"], "use": data["use"]} if json else files
        if not json:
            _tell(data)
    else:
        facts["next"] = f"coevo lab resume {outcome.path}"
    output.print_json(facts) if json else output.print_facts(facts)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def report_of(lab: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report's data, and where it stands: of a lab that has ended the files are written anew, with the picture."""
    from coevo.lab import picture, report
    from coevo.lab.reading import config_of, ledger_of
    from coevo.runs import Run

    with Run.open(lab, write=False) as run:
        ledger = ledger_of(run)
        config = config_of(run, ledger)
        if not ledger.reported:
            return report.report_of(run, config), {"next": f"coevo lab resume {lab}"}
        data, path = report.write_report(run, config, drawn=True)
    drawn = data["picture"]
    return data, {"report": path, "picture": path.with_name(drawn) if drawn == picture.FILE else drawn}


def _branches(rows: list[dict[str, Any]]) -> None:
    from coevo.lab.telling import moved

    output.print_table(
        ("round", "branch", "change", "state", "difference in truth [95 %]"),
        [(r["round"], r["branch"], r["change"] or "the start", r["verdict"] or r["state"], moved(r)) for r in rows],
    )


def _tell(data: dict[str, Any]) -> None:
    """The report in a few lines, then what one does with it."""
    from coevo.lab.report import summary

    print()
    for line in summary(data):
        print(line)
    if data["use"]:
        print(f"\nusing {data['final'].get('final') or 'the best so far'}:")
    for line in data["use"].values():
        print(f"  {line}")
    print(f"\nthe same lab again:\n  {data['commands']['again']}\n")


def _say(line: str) -> None:
    print(line, flush=True)


def _quiet(line: str) -> None:
    pass
