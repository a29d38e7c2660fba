"""`coevo skills`: list, show, test, import and export skills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.skills.running import Scripts
    from coevo.skills.states import Standing
    from coevo.skills.store import Shelf
    from coevo.skills.types import Skill, SkillState, Use

app = typer.Typer(
    help="Skills: interventions with a trigger, a change and a check. List, show, test, import, export.",
    no_args_is_help=True,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folders = Annotated[
    list[Path] | None, typer.Option("--skills", help="A folder of skills beside the shipped ones. Repeatable.")
]
Labs = Annotated[
    list[Path] | None, typer.Option("--lab", help="A lab's run folder, whose uses are the evidence. Repeatable.")
]


@app.command("list")
def list_(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A skill, a folder of skills, or a lab: only what is there, or was used there. None means the shipped ones."
        ),
    ] = None,
    folders: Folders = None,
    labs: Labs = None,
    json: Json = False,
) -> None:
    """Every skill with its state, and why; how often it was applied, and what came of it."""
    shelf, uses = _of_places(places, folders, labs) if places else _open(folders, labs)
    with _scripts() as scripts:
        found = [(skill, _standing(skill, shelf, uses, scripts)) for skill in shelf.skills]
    if json:
        output.print_json(
            {"skills": [_entry(skill, shelf, standing) for skill, standing in found], "broken": shelf.broken}
        )
        return
    output.print_table(
        ("skill", "state", "origin", "applied", "helped", "hurt", "chance to help", "why"),
        [
            (
                skill.name,
                standing.state.value,
                shelf.origin_of(skill).value,
                standing.record.applied,
                standing.record.helped,
                standing.record.hurt,
                f"{standing.record.chance:.2f}",
                "; ".join(standing.reasons),
            )
            for skill, standing in found
        ],
    )
    for folder, wrong in shelf.broken.items():
        print(f"{folder} is no skill: {'; '.join(wrong)}")
    states = Counter(standing.state.value for _, standing in found)
    said = ", ".join(f"{count} {state}" for state, count in states.most_common())
    output.print_facts({"states": said or "none", "skills": len(found), "broken": len(shelf.broken)})


@app.command()
def show(
    skill: Annotated[str, typer.Argument(help="A skill's name, or its folder.")],
    folders: Folders = None,
    labs: Labs = None,
    json: Json = False,
) -> None:
    """What a skill is for, what it changes, and what is believed of it."""
    shelf, uses = _open(folders, labs)
    found = _one(skill, shelf)
    with _scripts() as scripts:
        standing = _standing(found, shelf, uses, scripts)
    if json:
        entry = _entry(found, shelf, standing)
        output.print_json(
            {**entry, "sections": found.sections, "metadata": found.metadata, "files": sorted(found.files)}
        )
        return
    print(found.description, "\n", sep="")
    for heading, text in found.sections.items():
        print(f"{heading}\n{text}\n")
    output.print_facts(
        {
            "skill": found.name,
            "state": standing.state.value,
            "why": "; ".join(standing.reasons),
            "origin": shelf.origin_of(found).value,
            "scope": ", ".join(found.scope) or "any domain",
            "chance": standing.record.chance,
            "folder": found.folder,
            "digest": found.digest,
        }
    )


@app.command("test")
def run_cases(
    skills: Annotated[list[str] | None, typer.Argument(help="Names or folders; none means all.")] = None,
    folders: Folders = None,
    json: Json = False,
) -> None:
    """Run skills' cases: each must fire where it should, and be silent on near misses. Ends with 4 when a case fails."""
    shelf, _ = _open(folders, None)
    chosen = [_one(name, shelf) for name in skills] if skills else shelf.skills
    with _scripts() as scripts:
        reports = [scripts.cases(skill) for skill in chosen]
    broken = {} if skills else shelf.broken
    if json:
        output.print_json(
            {
                "skills": [
                    {"skill": r.skill, "hold": r.hold, "cases": [c._asdict() for c in r.results]} for r in reports
                ],
                "broken": broken,
            }
        )
    else:
        for report in reports:
            count = len(report.results)
            print(
                f"{report.skill}: {'ok' if report.hold else 'FAILED'} ({count - len(report.failed)} of {count} cases hold)"
            )
            for result in report.failed:
                print(f"  {result.case}: {result.detail}")
        for folder, wrong in broken.items():
            print(f"{folder}: NO SKILL")
            for line in wrong:
                print(f"  {line}")
        failed = sum(not report.hold for report in reports) + len(broken)
        output.print_facts({"skills": len(reports), "failed": failed})
    if broken or not all(report.hold for report in reports):
        raise typer.Exit(4)


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="A skill's folder.")],
    to: Annotated[Path, typer.Option("--to", help="Folder of skills to copy it into.")] = Path("skills"),
    json: Json = False,
) -> None:
    """Check a skill and copy it in. It starts with nothing believed of it, whatever it claims, and its scripts run in the sandbox only."""
    from coevo.skills.store import import_skill

    skill = import_skill(source, to)
    with _scripts() as scripts:
        report = scripts.cases(skill)
    facts: dict[str, Any] = {
        "skill": skill.name,
        "folder": skill.folder,
        "cases": f"{len(report.results) - len(report.failed)} of {len(report.results)} hold",
        "state": "validated" if report.hold else "candidate",
        "next": f"coevo skills test {skill.folder}",
    }
    if json:
        output.print_json({**facts, "failed": [result._asdict() for result in report.failed]})
        return
    for result in report.failed:
        print(f"{result.case}: {result.detail}")
    output.print_facts(facts)


@app.command()
def export(
    to: Annotated[Path, typer.Option("--to", help="Where a coding agent looks for skills: .claude/skills, say.")],
    skills: Annotated[list[str] | None, typer.Argument(help="Names; none means all that are good enough.")] = None,
    least: Annotated[str, typer.Option(help="Least state: trusted, or validated.")] = "trusted",
    folders: Folders = None,
    labs: Labs = None,
    json: Json = False,
) -> None:
    """Copy trusted skills, each with the page of its evidence, to where coding agents read them. They need no coevo to run."""
    from coevo.errors import UsageError, pick
    from coevo.skills.evidence import evidence_page
    from coevo.skills.store import export_skills
    from coevo.skills.types import SkillState

    enough = pick(
        least,
        {"trusted": {SkillState.TRUSTED}, "validated": {SkillState.TRUSTED, SkillState.VALIDATED}},
        kind="state",
    )
    shelf, uses = _open(folders, labs)
    chosen = [shelf.get(name) for name in skills] if skills else shelf.skills
    with _scripts() as scripts:
        found = [(skill, _standing(skill, shelf, uses, scripts, enough)) for skill in chosen]
    good = [(skill, evidence_page(skill, uses, standing)) for skill, standing in found if standing.state in enough]
    left = {skill.name: standing for skill, standing in found if standing.state not in enough}
    if not good or (skills and left):
        name, standing = next(iter(left.items()))
        raise UsageError(
            f"{len(left)} of {len(found)} skills are not {least}; {name} is {standing.state}: {standing.reasons[-1]}. "
            "Name the labs that used them with --lab, or export those whose cases hold with --least validated"
        )
    folders_made = export_skills(good, to)
    if json:
        output.print_json({"exported": folders_made, "left": {n: s.reasons for n, s in left.items()}})
        return
    for folder in folders_made:
        print(folder)
    output.print_facts({"exported": len(folders_made), "left": len(left)})


def _scripts() -> Scripts:
    from coevo.skills.running import Scripts

    return Scripts(walled=True)


def _open(folders: list[Path] | None, labs: list[Path] | None) -> tuple[Shelf, list[Use]]:
    from coevo.skills.evidence import uses_of
    from coevo.skills.store import open_shelf

    return open_shelf(folders or ()), uses_of(labs or ())


def _of_places(places: list[Path], folders: list[Path] | None, labs: list[Path] | None) -> tuple[Shelf, list[Use]]:
    """The skills of these folders; of labs, those they wrote and those they used."""
    from dataclasses import replace

    from coevo.skills.evidence import uses_of
    from coevo.skills.store import open_shelf, shipped

    of_labs = [place for place in places if (place / "run.db").is_file()]
    own = [place / "harness" / "skills" for place in of_labs if (place / "harness" / "skills").is_dir()]
    uses = uses_of([*(labs or ()), *of_labs])
    shelf = open_shelf([*(folders or ()), *(place for place in places if place not in of_labs), *own], library=False)
    used = {use.skill for use in uses}
    known = {skill.name: skill for skill in shipped() if skill.name in used}
    return replace(shelf, by_name={**known, **shelf.by_name}), uses


def _one(name: str, shelf: Shelf) -> Skill:
    from coevo.skills.reading import read_skill

    return read_skill(name) if Path(name).is_dir() and name not in shelf.by_name else shelf.get(name)


def _standing(
    skill: Skill, shelf: Shelf, uses: list[Use], scripts: Scripts, enough: Collection[SkillState] | None = None
) -> Standing:
    """A skill's state. With `enough`, cases are run only where the uses alone would do."""
    from coevo.skills.states import state_of

    own = [use for use in uses if use.skill == skill.name]
    known = {"origin": shelf.origin_of(skill), "tombstone": shelf.tombstones.get(skill.digest, "")}
    best = state_of(own, cases_hold=True, **known)
    if enough is not None and best.state not in enough:
        return best
    return best if scripts.cases_hold(skill) else state_of(own, cases_hold=False, **known)


def _entry(skill: Skill, shelf: Shelf, standing: Standing) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "state": standing.state,
        "reasons": standing.reasons,
        "origin": shelf.origin_of(skill),
        "scope": skill.scope,
        "record": standing.record._asdict(),
        "chance": standing.record.chance,
        "folder": skill.folder,
        "digest": skill.digest,
    }
