"""OpenEvolve with an instant model and an instant evaluator: peers_openevolve.py FOLDER STEPS WARM_UP (see peers_server.py)."""

from __future__ import annotations

from pathlib import Path

from peers_server import START, measured

EVALUATOR = """\
import re


def evaluate(program_path):
    a, b = map(float, re.findall(r"[AB] = ([\\d.e-]+)", open(program_path).read()))
    return {"combined_score": a + b}
"""


def drive(url: str, folder: Path, steps: int) -> None:
    from openevolve.api import run_evolution  # type: ignore[import-not-found]
    from openevolve.config import Config, LLMModelConfig  # type: ignore[import-not-found]

    (folder / "start.py").write_text(START)
    (folder / "evaluator.py").write_text(EVALUATOR)
    config = Config(max_iterations=steps, checkpoint_interval=10**9, diff_based_evolution=False, log_level="ERROR")
    config.llm.models = [
        LLMModelConfig(name="fake", api_base=url, api_key="none", timeout=60, retries=0, max_tokens=1000)
    ]
    config.evaluator.cascade_evaluation = False
    config.evaluator.parallel_evaluations = 2
    run_evolution(
        str(folder / "start.py"),
        str(folder / "evaluator.py"),
        config=config,
        iterations=steps,
        output_dir=str(folder / "out"),
        cleanup=False,
    )


if __name__ == "__main__":
    measured(drive, "openevolve")
