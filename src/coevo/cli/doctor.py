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
    facts = report.to_dict()
    if json:
        output.print_json(facts)
    else:
        output.print_table(
            ("wall", "stands", "detail"), [(w.name, "yes" if w.stands else "NO", w.detail) for w in report.walls]
        )
        output.print_table(
            ("canary", "result", "detail"), [(c.name, "ok" if c.ok else "FAILED", c.detail) for c in report.canaries]
        )
        output.print_facts({k: v for k, v in facts.items() if not isinstance(v, (list, dict))})
    if not report.ok:
        raise typer.Exit(4)
