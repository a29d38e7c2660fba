"""ShinkaEvolve with an instant model and a bare evaluator: peers_shinka.py FOLDER STEPS WARM_UP (see peers_server.py).

The evaluator is a child process that does not import the package, the fastest way that it offers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from peers_server import START, measured

EVALUATOR = """\
import argparse, json, os, re

parser = argparse.ArgumentParser()
parser.add_argument("--program_path")
parser.add_argument("--results_dir")
args = parser.parse_args()
os.makedirs(args.results_dir, exist_ok=True)
a, b = map(float, re.findall(r"[AB] = ([\\d.e-]+)", open(args.program_path).read()))
for name, value in (("correct", {"correct": True, "error": ""}), ("metrics", {"combined_score": a + b, "public": {}, "private": {}})):
    with open(os.path.join(args.results_dir, name + ".json"), "w") as file:
        json.dump(value, file)
"""


def drive(url: str, folder: Path, steps: int) -> None:
    from shinka.core import EvolutionConfig, ShinkaEvolveRunner  # type: ignore[import-not-found]
    from shinka.database import DatabaseConfig  # type: ignore[import-not-found]
    from shinka.launch import LocalJobConfig  # type: ignore[import-not-found]

    (folder / "initial.py").write_text(START)
    (folder / "evaluate.py").write_text(EVALUATOR)
    evolution = EvolutionConfig(
        task_sys_msg="Return a large number.",
        patch_types=["full"],
        patch_type_probs=[1.0],
        num_generations=steps,
        llm_models=[f"local/fake@{url}"],
        llm_dynamic_selection=None,
        llm_kwargs={"temperatures": [0.7], "max_tokens": 1000},
        meta_rec_interval=None,
        embedding_model=None,
        init_program_path=str(folder / "initial.py"),
        results_dir=str(folder / "out"),
    )
    runner = ShinkaEvolveRunner(
        evo_config=evolution,
        job_config=LocalJobConfig(eval_program_path=str(folder / "evaluate.py"), python_executable=sys.executable),
        db_config=DatabaseConfig(db_path=str(folder / "shinka.sqlite")),
        verbose=False,
        banner_style="minimal",
        max_evaluation_jobs=2,
        max_proposal_jobs=4,
    )
    runner.run()


if __name__ == "__main__":
    measured(drive, "shinka-evolve")
