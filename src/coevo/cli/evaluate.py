"""`coevo evaluate TASK PROGRAM`: one program, judged, with everything the judge found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.evaluation.types import Evaluation
    from coevo.tasks.types import Split


def evaluate(
    task: Annotated[str, typer.Argument(help="A shipped task's name, or a task folder.")],
    program: Annotated[Path, typer.Argument(help="A .py file, or a folder with program.py.")],
    split: Annotated[str, typer.Option(help="Which tests: public, hidden, or both.")] = "both",
    seed: Annotated[int, typer.Option(help="Seeds the timed inputs and the candidate's random generators.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the whole evaluation as JSON.")] = False,
) -> None:
    """Judge one program on a task: correctness, efficiency, fitness, and each test.

    Ends with 0 when the program was measured (right or wrong), 1 when it could not be.
    """
    from coevo import api
    from coevo.errors import pick

    known: dict[str, tuple[Split, ...]] = {"public": ("public",), "hidden": ("hidden",), "both": ("public", "hidden")}
    splits = pick(split, known, kind="split")
    found = api.load_task(task)
    results = [api.evaluate(found, program, split=name, seed=seed) for name in splits]
    if json:
        output.print_json({"task": found.name, "program": str(program), "evaluations": results})
    else:
        for result in results:
            _print(result)
    if any(result.fitness is None for result in results):
        raise typer.Exit(1)


def _print(result: Evaluation) -> None:
    failed = [test for test in result.tests if not test.passed]
    print(
        f"\n{result.split} tests of {result.task}: {result.outcome}"
        + (f" ({result.failure})" if result.failure else "")
    )
    if result.tests:
        print(f"  {len(result.tests) - len(failed)} of {len(result.tests)} tests passed")
    for test in failed[:5]:
        print(f"  {test.name}: {test.status}" + (f" - {test.detail}" if test.detail else ""))
    if len(failed) > 5:
        print(f"  ... and {len(failed) - 5} more")
    if result.feedback:
        print("  " + result.feedback.replace("\n", "\n  "))
    output.print_facts(
        {
            "score": result.score,
            "correctness": result.correctness,
            "speedup": result.speedup,
            "efficiency": result.efficiency,
            "fitness": result.fitness,
            "reason": result.reason or None,
            "cpu_s": round(result.cpu_s, 4),
            "peak_mb": round(result.peak_mb, 1),
            "judge": result.judge,
        }
    )
