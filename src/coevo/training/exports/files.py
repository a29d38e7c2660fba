"""The files of exports that are not rows. Short on purpose: what they do is in `coevo.training.exports.scoring`."""

_SCORER = '''
_lock = threading.Lock()
_scorer: Scorer | None = None


def scorer() -> Scorer:
    """Made at the first use; its workers judge replies in coevo's sandbox. $COEVO_POOL: local (one worker per CPU), local:4, inline, ray:8."""
    global _scorer
    with _lock:
        if _scorer is None:
            _scorer = Scorer(Path(__file__).parent, pool=os.environ.get("COEVO_POOL", "local"))
            atexit.register(_scorer.close)
        return _scorer
'''

VERL = (
    '''"""The reward of these start states, for verl: every reply is parsed, judged in a sandbox and rewarded as by coevo itself."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Any

from coevo.training.exports import Scorer
'''
    + _SCORER
    + '''

def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """Score of one reply. `ground_truth` is the start state. Raises where the machine could not judge it: no number would be true."""
    score = scorer().score(ground_truth, solution_str)
    return {"score": score.required(), **score.numbers()}
'''
)

VERL_PAGE = """# Start states for verl

`train.parquet` has the columns of verl's `RLHFDataset` (data_source, prompt, ability, reward_model, extra_info);
`coevo_reward.py` has `compute_score`, which needs coevo installed where rewards are computed, and the tasks that `coevo.json` names.

    python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
        data.train_files=train.parquet data.val_files=train.parquet \\
        reward.custom_reward_function.path=coevo_reward.py reward.custom_reward_function.name=compute_score ...

Older releases call it `custom_reward_function.path`. Set `data.max_prompt_length` so that no prompt is cut.
"""

TRL = (
    '''"""The reward of these start states, for TRL: every reply is parsed, judged in a sandbox and rewarded as by coevo itself.

    GRPOTrainer(model, reward_funcs=[coevo_reward.coevo], train_dataset=load_dataset(FOLDER, split="train"), ...)
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Any

from coevo.training.exports import Scorer
'''
    + _SCORER
    + '''

def coevo(
    prompts: list[Any],
    completions: list[Any],
    state: list[str],
    completion_ids: list[list[int]] | None = None,
    log_metric: Any = None,
    **_: Any,
) -> list[float | None]:
    """A reward per completion; None, which TRL leaves out, where the machine could not judge it."""
    replies = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    scores = scorer().scores(state, replies, tokens=[len(ids) for ids in completion_ids or [[]] * len(replies)])
    if log_metric is not None and scores:
        log_metric("coevo/unmeasured", sum(score.reward is None for score in scores) / len(scores))
    return [score.reward for score in scores]
'''
)

TRL_PAGE = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---

# Start states for TRL

    from datasets import load_dataset
    train = load_dataset("THIS_FOLDER", split="train")      # prompt in conversational form; state is what the reward needs

`coevo_reward.py` has the reward function `coevo` for `GRPOTrainer`; it needs coevo installed, and the tasks that `coevo.json` names.
"""

VERIFIERS = (
    '''"""Start states of coevo as an environment of `verifiers`: one reply to each, judged in coevo's sandbox.

`load_environment()` is for its releases before 0.4; from version 1 of its interface on, the taskset `CoevoTaskset` is.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
from pathlib import Path
from typing import Any

import verifiers

from coevo.training.exports import Scorer

try:
    import verifiers.v1 as v1
except ImportError:
    v1 = None

ROWS = Path(__file__).parent / "train.parquet"
__all__ = ["load_environment"]
'''
    + _SCORER
    + '''

async def score(state: str, reply: str) -> float:
    """Reward of one reply. Raises where the machine could not judge it: no number would be true."""
    return (await asyncio.to_thread(scorer().score, state, reply)).required()


def load_environment(limit: int | None = None, **options: Any) -> Any:
    """A `SingleTurnEnv` over the first `limit` start states (None: all)."""
    from datasets import Dataset

    if not hasattr(verifiers, "SingleTurnEnv"):
        raise ImportError(f"verifiers {verifiers.__version__} has no SingleTurnEnv any more; use its taskset coevo_env")
    data = Dataset.from_parquet(str(ROWS))
    data = data.select(range(min(limit, len(data)))) if limit is not None else data

    async def coevo(completion: Any, info: Any) -> float:
        last = completion[-1]
        reply = last["content"] if isinstance(last, dict) else last.content
        state = info["state"] if isinstance(info, dict) else json.loads(info)["state"]
        return await score(state, reply or "")

    return verifiers.SingleTurnEnv(dataset=data, rubric=verifiers.Rubric(funcs=[coevo], weights=[1.0]), **options)


if v1 is not None:

    class CoevoData(v1.TaskData):
        state: str
        """The start state, as coevo keeps it."""

    class CoevoTask(v1.Task[CoevoData, v1.State, v1.TaskConfig]):
        @v1.reward
        async def coevo(self, trace: Any) -> float:
            return await score(self.data.state, trace.last_reply)

    class CoevoTaskset(v1.Taskset[CoevoTask, v1.TasksetConfig]):
        def load(self) -> Any:
            from pyarrow.parquet import ParquetFile

            for batch in ParquetFile(ROWS).iter_batches(100):
                for row in batch.to_pylist():
                    system = "\\n\\n".join(m["content"] for m in row["prompt"] if m["role"] == "system")
                    user = "\\n\\n".join(m["content"] for m in row["prompt"] if m["role"] != "system")
                    state = json.loads(row["info"])["state"]
                    data = CoevoData(name=row["task"], prompt=user, system_prompt=system or None, state=state)
                    yield CoevoTask(data, self.config.task)

    __all__ = ["CoevoTaskset", "load_environment"]
'''
)

VERIFIERS_PROJECT = """[project]
name = "coevo-env"
version = "0.1.0"
description = "Start states of coevo as an environment"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.1.9", "coevo", "datasets>=4", "pyarrow>=16"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["coevo_env"]
"""

VERIFIERS_PAGE = """# Start states for verifiers

    pip install .
    python -c "import verifiers as vf; print(vf.load_environment('coevo-env'))"     # releases before 0.4
    # later ones: the taskset `coevo-env`

It needs coevo installed where rewards are computed, and the tasks that `coevo_env/coevo.json` names. A reply that the machine could not
judge raises: it is no zero.
"""
