"""Start states, prompts and the recipe's reward in the forms that other trainers read.

    export("verl", states, tasks, recipe, "out/")

`verl` (parquet and a reward function file), `verifiers` (an environment module) and `trl` (a data set folder and a reward function). What
every export holds beside its rows: `coevo.json`, the record by which `scoring.Scorer` judges a reply exactly as coevo's own trainer would,
in the sandbox, with tasks by reference.
"""

from __future__ import annotations

from coevo.training.exports.folder import KINDS, Exported, export, export_trl, export_verifiers, export_verl
from coevo.training.exports.scoring import Score, Scorer

__all__ = ["KINDS", "Exported", "Score", "Scorer", "export", "export_trl", "export_verifiers", "export_verl"]
