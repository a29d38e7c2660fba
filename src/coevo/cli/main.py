"""The `coevo` command: one module per verb. Nothing heavy is imported before a verb runs.

Exit codes: 0 fine, 1 error, 2 usage, 3 budget spent before anything was done, 4 a gate blocked.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from coevo.cli import (
    backtest,
    bench,
    compare,
    config,
    demo,
    diagnose,
    doctor,
    evaluate,
    evolve,
    export,
    lab,
    mini,
    replay,
    resume,
    reward,
    serve,
    skills,
    status,
    synth,
    tasks,
    train,
)

app = typer.Typer(
    name="coevo",
    help="Evolve programs, and train the models that improve them, under a judge that neither can reach.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from coevo import __version__

        typer.echo(f"coevo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("evolve")(evolve.evolve)
app.command("evaluate")(evaluate.evaluate)
app.command("synth")(synth.synth)
app.command("train")(train.train)
app.command("bench")(bench.bench)
app.command("compare")(compare.compare)
app.command("backtest")(backtest.backtest)
app.command("serve")(serve.serve)
app.add_typer(lab.app, name="lab")
app.add_typer(reward.app, name="reward")
app.add_typer(mini.app, name="mini")
app.add_typer(tasks.app, name="tasks")
app.add_typer(skills.app, name="skills")
app.command("diagnose")(diagnose.diagnose)
app.command("doctor")(doctor.doctor)
app.command("status")(status.status)
app.command("resume")(resume.resume)
app.command("replay")(replay.replay)
app.command("export")(export.export)
app.command("config")(config.config)


def run() -> None:
    """Entry point: the only place that turns a `CoevoError` into a message and an exit code."""
    from coevo.errors import CoevoError

    _prepare_streams()
    try:
        app()
    except CoevoError as e:
        print(f"error: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except SystemExit as e:
        if e.code == 130:  # Typer's word for a KeyboardInterrupt that it caught.
            print("interrupted; `coevo status` says how a run that was under way goes on", file=sys.stderr)
        if isinstance(e.__context__, BrokenPipeError):  # Caught by typer, too.
            _reader_left()
        raise
    except BrokenPipeError:
        _reader_left()
    except OSError as e:
        print(f"error: the system refused: {e}", file=sys.stderr)
        sys.exit(1)


def _prepare_streams() -> None:
    """Output that is closed goes nowhere, and what a terminal cannot show is escaped: neither may end a search.

    A closed descriptor is filled, lest the next file opened become our standard output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # The judging processes have streams, too.
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - lives as long as we
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _reader_left() -> None:
    """`coevo ... | head`: not our error, and nothing more can be said."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(0)


if __name__ == "__main__":
    run()
