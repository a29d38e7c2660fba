"""`coevo config`: every setting with its meaning, or the resolved config of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coevo.cli import output


def config(
    what: Annotated[
        str,
        typer.Argument(help="search, recipe, lab, arms, gate, synth, task, budget, model, sandbox, or a run folder."),
    ] = "search",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Settings, their defaults and what they mean; of a run folder, the config it was made with."""
    if (Path(what) / "run.db").exists():
        from coevo.runs import Run

        with Run.open(what, write=False) as run:
            facts: dict[str, Any] = run.config
        _print(facts, json)
        return
    from coevo.errors import pick
    from coevo.evolution.settings import SearchConfig
    from coevo.gate.settings import GateConfig
    from coevo.lab.arms import ArmsConfig
    from coevo.lab.settings import LabConfig
    from coevo.models.spec import ModelSpec
    from coevo.runs import Budget
    from coevo.sandbox.types import SandboxConfig
    from coevo.tasks.types import TaskConfig
    from coevo.training.settings import Recipe
    from coevo.trajectories.settings import SynthConfig

    kinds: dict[str, Any] = {"search": SearchConfig, "recipe": Recipe, "synth": SynthConfig, "task": TaskConfig}
    kinds |= {"budget": Budget, "model": ModelSpec, "sandbox": SandboxConfig}
    kinds |= {"lab": LabConfig, "arms": ArmsConfig, "gate": GateConfig}
    cls = pick(what, kinds, kind="config (or run folder)")
    rows = list(_fields(cls, ""))
    if json:
        output.print_json([dict(zip(("name", "default", "meaning"), row, strict=True)) for row in rows])
    else:
        output.print_table(("setting", "default", "meaning"), rows)


def _fields(cls: Any, prefix: str) -> Any:
    from pydantic import BaseModel

    for name, field in cls.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _fields(inner, f"{prefix}{name}.")
        else:
            default = "(required)" if field.is_required() else field.get_default(call_default_factory=True)
            text = str(getattr(default, "value", default)) if default != "" else '""'
            yield prefix + name, text, " ".join((field.description or "").split())


def _print(facts: dict[str, Any], json: bool) -> None:
    if json:
        output.print_json(facts)
        return
    import yaml

    print(yaml.safe_dump(output.plain(facts), sort_keys=False), end="")
