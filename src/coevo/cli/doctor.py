"""`coevo doctor`: which walls stand on this machine, how fast they are, and whether they hold."""

from __future__ import annotations

from typing import Annotated

import typer

from coevo.cli import output


def doctor(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="How long to measure throughput.")] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which walls stand here, what the sandbox's throughput is, and whether a canary and an attack end as they should.

    Ends with 4 when a wall that was reported standing let an attack through.
    """
    from coevo.sandbox.doctor import examine
    from coevo.sandbox.types import SandboxConfig

    report = examine(SandboxConfig(), seconds=seconds)
    if json:
        output.print_json(report.to_dict())
    else:
        yes = {True: "yes", False: "NO"}
        output.print_table(("wall", "stands", "detail"), [(w.name, yes[w.stands], w.detail) for w in report.walls])
        rungs = [
            (rung.value, "stands" if not lacks else f"lacks {', '.join(lacks)}") for rung, lacks in report.rungs.items()
        ]
        output.print_table(("rung, best first", ""), rungs)
        speeds = [
            (
                w.preload.value,
                w.level.value if w.level else "none",
                round(w.start_s, 2),
                round(w.per_s),
                round(w.p50_ms, 2),
                w.detail,
            )
            for w in report.warmth
        ]
        output.print_table(("preload", "rung", "start s", "executions/s, one worker", "p50 ms", "detail"), speeds)
        output.print_table(
            ("canary", "as it should be", "what came out"), [(c.name, yes[c.ok], c.detail) for c in report.canaries]
        )
        output.print_facts(
            {"level": report.level.value if report.level else "none", "healthy": yes[report.healthy].lower()}
        )
    if not report.healthy:
        raise typer.Exit(4)
