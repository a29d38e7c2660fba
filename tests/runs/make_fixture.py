"""Writes the run that later versions must still open: `python -m tests.runs.make_fixture DIR`.

A fixture is made once, by the version that wrote that schema, and never again.
"""

from __future__ import annotations

import sys

from coevo.programs import Program
from coevo.runs import Run, State, parse_budget


def main(path: str) -> None:
    budget = parse_budget("evaluations=10,tokens=5000,usd=0.5")
    with Run.create(path, kind="evolve", config={"task": "packing", "seed": 7}, budget=budget) as run:
        for i in range(3):
            child = Program.of(
                {"program.py": f"from lib import g\ndef f():\n    return g() + {i}\n", "lib.py": "g = int\n"}
            )
            ticket = run.ledger.reserve("model", step=i, evaluations=1, tokens=1000, usd=0.01)
            with run.transaction():
                run.put_program(child)
                run.put_evaluation(
                    child.id, split="public", seed=2**63 + i, payload={"outcome": "scored", "fitness": i / 3}
                )
                run.put_completion(f"step-{i}", {"text": f"reply {i} \ud800", "logprobs": [float("-inf"), -0.5]})
                run.append("step", {"program": child.id, "reply": f"step-{i}", "wall_s": 0.25 * i}, step=i)
                run.ledger.settle(ticket, tokens=100 * (i + 1), usd=0.001)
        run.put_rollouts(
            [{"task": "packing", "split": "train", "group": "g", "reward": 0.5, "truth": 1.0, "kept": True}]
        )
        run.ledger.reserve("model", step=3, usd=0.02)
        run.mark(State.STOPPED, by="the maker of fixtures")


if __name__ == "__main__":
    main(sys.argv[1])
