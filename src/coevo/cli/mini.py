"""`coevo mini`: a small language model trained here from nothing, and the tasks it can learn on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from coevo.cli import output

app = typer.Typer(
    help="A small language model trained here from nothing, and the tasks it can learn on.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def pretrain(
    out: Annotated[Path | None, typer.Option(help="Also copy the model to this new folder.")] = None,
    size: Annotated[str, typer.Option(help="mini: for studies, minutes. tiny: for tests, seconds.")] = "mini",
    seed: Annotated[int | None, typer.Option(help="Of the weights and of the examples.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting: steps=500, corpus.write=0.3.")] = None,
    json: Json = False,
) -> None:
    """Pre-train the mini model, or find that it is done: one model per settings lies in the cache.

    The folder is an ordinary Hugging Face model: `coevo evolve TASK --model local:FOLDER` uses it as it is.
    """
    from coevo.config import parse, with_sets
    from coevo.errors import pick
    from coevo.mini.pretrain import SIZES, PretrainConfig
    from coevo.mini.pretrain import pretrain as run

    data = with_sets(pick(size, SIZES, kind="mini model").model_dump(mode="json"), set_ or [])
    config = parse(PretrainConfig, data if seed is None else {**data, "seed": seed}, where="mini pretrain")
    folder = run(out, config=config, notify=lambda line: print(line, file=sys.stderr, flush=True))
    facts = {"model": f"local:{folder}", "folder": folder}
    if json:
        output.print_json(facts)
    else:
        output.print_facts(facts)


@app.command()
def tasks(
    out: Annotated[Path, typer.Argument(help="The folder to write task folders into.")],
    family: Annotated[
        list[str] | None, typer.Option(help="A family (may be repeated); those trained on unless given.")
    ] = None,
    part: Annotated[str, typer.Option(help="train, validation or test: no two share a solution.")] = "test",
    count: Annotated[int, typer.Option(min=1, help="How many, taken from the families in turn.")] = 16,
    seed: Annotated[int, typer.Option(help="Another seed gives other tasks.")] = 0,
    json: Json = False,
) -> None:
    """Write puzzles as task folders, which every other command takes."""
    from coevo.errors import pick
    from coevo.mini.families import PARTS, SEEN, Part
    from coevo.mini.tasks import write_tasks

    known: dict[str, Part] = {name: name for name in PARTS}
    chosen = pick(part, known, kind="part")
    paths = write_tasks(family or tuple(SEEN), part=chosen, count=count, seed=seed, folder=out)
    if json:
        output.print_json([str(path) for path in paths])
    else:
        for path in paths:
            print(path)


@app.command()
def families(json: Json = False) -> None:
    """The families of puzzles, and which of them are never trained on."""
    from coevo.mini.families import SEEN, UNSEEN

    rows = [(f.name, "trained on", f.cases, f.about) for f in SEEN.values()]
    rows += [(f.name, "held out", f.cases, f.about) for f in UNSEEN.values()]
    headers = ("family", "use", "cases", "what it is")
    if json:
        output.print_json([dict(zip(headers, row, strict=True)) for row in rows])
    else:
        output.print_table(headers, rows)
