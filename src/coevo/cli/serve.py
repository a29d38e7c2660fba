"""`coevo serve BASE`: a policy over HTTP, for trainers on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    base: Annotated[str, typer.Argument(help="A Hugging Face folder, GGUF file, hub id, local, or mini.")],
    folder: Annotated[Path, typer.Option(help="Where saved states are kept; they outlive the server.")] = Path(
        "runs/served"
    ),
    name: Annotated[
        str, typer.Option(help="The model's name for clients; default: what a recipe with base BASE asks for.")
    ] = "",
    host: Annotated[str, typer.Option(help="Beyond this machine only with TINKER_API_KEY set.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    slots: Annotated[int, typer.Option(min=1, help="Models at a time, each with a copy of the weights.")] = 4,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of torch.")] = None,
) -> None:
    """Serve a model to Tinker clients: recipes with engine.name = tinker, or any other client of that protocol.

    The first line of output is `url: http://...`. Ctrl-C ends it; saved states stay.
    """
    from coevo.engines.tinker_server import main
    from coevo.mini.base import base_folder
    from coevo.runs.place import require_writable

    require_writable(folder)
    found = base_folder(base, notify=lambda text: print(text, flush=True))
    given = [str(found or base), "--folder", str(folder), "--name", name or asked_for(base, found), "--host", host]
    given += ["--port", str(port), "--slots", str(slots), "--device", device]
    if threads is not None:
        given += ["--threads", str(threads)]
    if code := main(given):
        raise typer.Exit(code)


def asked_for(base: str, found: Path | None) -> str:
    """The name under which an engine `tinker` of a recipe with this base looks for it (`found`: the folder of a mini)."""
    from coevo.models.weights import EMBEDDED
    from coevo.training.session import absolute

    if found is not None:
        return str(found)
    return EMBEDDED if base == "local" else absolute(base).removeprefix("local:")
