"""The evidence row of a rollout, schema 1: what was asked, what came, what it earned, and apart from that, whether it is true.

Rows are kept by `run.put_rollouts` and leave a run by `coevo export RUN rollouts FILE`. One rollout is one row; an episode of
several turns is known by its best turn (`standing.best_turn`).

    schema, run, branch, step, split, task, group, sample      which rollout
    kind                 of the task: function, stdio, open, ...
    prompt, response     text; of several turns, the replies and what was said between them
    reward, parts        what training saw (before any filter), and the named parts it is made of
    truth                fitness on hidden tests, by the same formula as `fitness`; 0 for a reply without a program; None where it was not asked for
                         or could not be measured. No reward sees it
    contract_ok          every reply could be parsed into a new program
    copy                 the last reply handed its parent back: well-formed, and no new program
    meaning_ok           the program is right: all public tests passed; kind open: its answer is valid
    tokens, stop_reason, turns, tool_calls, tool_errors, logprob_mean, entropy_mean     of the sampled tokens
    advantage            mean over the turns
    kept                 whether the filters let it through; None where there are none
    unmeasured_reason    why it has no reward; empty otherwise
    wall_s, cost_usd
    parent_fitness, fitness, correctness, efficiency, edit_kind, depth, program_hash    of the evolution step; `depth` of the start
    state_source         where the start comes from: statement, synth, search, or policy, whose programs the policy wrote itself
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coevo.episodes.standing import best_turn, truth_of
from coevo.episodes.types import Judged, Rollout, Turn
from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.types import Rejection
from coevo.tasks.types import Kind

SCHEMA = 1

COLUMNS = (
    *("schema", "run", "branch", "step", "split", "task", "group", "sample", "kind", "prompt", "response", "reward"),
    *(
        "truth",
        "parts",
        "contract_ok",
        "copy",
        "meaning_ok",
        "tokens",
        "stop_reason",
        "turns",
        "tool_calls",
        "tool_errors",
    ),
    *("advantage", "logprob_mean", "entropy_mean", "kept", "unmeasured_reason", "wall_s", "cost_usd"),
    *("parent_fitness", "fitness", "correctness", "efficiency", "edit_kind", "depth", "program_hash", "state_source"),
)


def evidence_row(
    rollout: Rollout,
    *,
    run: str,
    branch: str,
    step: int,
    split: str,
    kind: Kind | str,
    reward: float | None,
    parts: Mapping[str, float] | None = None,
    advantage: float | Sequence[float] | None = None,
    kept: bool | None = None,
    reason: str = "",
    entropy_mean: float | None = None,
    cost_usd: float = 0.0,
) -> dict[str, Any]:
    """The row of one rollout, with every name of `COLUMNS`. `split` says what the rollout was for (train, eval, ...).

    `reason`: why there is no reward although the rollout was measured (the reward function raised, say).
    """
    best = best_turn(rollout.turns)
    judged = best.judged if best else None
    evaluation = judged.evaluation if judged else None
    measured = not rollout.unmeasured
    logprobs = [value for turn in rollout.turns for value in turn.logprobs]
    return {
        "schema": SCHEMA,
        "run": run,
        "branch": branch,
        "step": step,
        "split": split,
        "task": rollout.state.task,
        "group": rollout.group,
        "sample": rollout.sample,
        "kind": str(kind),
        "prompt": rollout.prompt,
        "response": response_of(rollout.turns),
        "reward": reward if measured else None,
        "truth": truth_of(rollout),
        "parts": dict(parts or {}),
        "contract_ok": all(t.judged.proposal.program is not None for t in rollout.turns) if measured else None,
        "copy": rollout.turns[-1].judged.proposal.rejection is Rejection.UNCHANGED
        if measured and rollout.turns
        else None,
        "meaning_ok": _is_right(evaluation, kind) if measured else None,
        "tokens": sum(len(turn.token_ids) for turn in rollout.turns),
        "stop_reason": rollout.turns[-1].stop_reason.value if rollout.turns else None,
        "turns": len(rollout.turns),
        "tool_calls": 0,
        "tool_errors": 0,
        "advantage": _mean(advantage) if isinstance(advantage, Sequence) else advantage,
        "logprob_mean": _mean(logprobs),
        "entropy_mean": entropy_mean,
        "kept": kept,
        "unmeasured_reason": rollout.unmeasured or reason,
        "wall_s": rollout.wall_s,
        "cost_usd": cost_usd,
        **_of_evolution(rollout, judged),
    }


def _of_evolution(rollout: Rollout, judged: Judged | None) -> dict[str, Any]:
    """The columns of tasks of program evolution: what was there, and what the episode is known by."""
    evaluation = judged.evaluation if judged else None
    return {
        "parent_fitness": rollout.state.context.parent.fitness,
        "fitness": evaluation.fitness if evaluation else None,
        "correctness": evaluation.correctness if evaluation else None,
        "efficiency": evaluation.efficiency if evaluation else None,
        "edit_kind": rollout.state.style.value,
        "depth": rollout.state.depth,
        "program_hash": judged.program_hash if judged else "",
        "state_source": rollout.state.source.value,
    }


def response_of(turns: Sequence[Turn]) -> str:
    """All that was said after the prompt, as text."""
    said = [
        part
        for turn in turns
        for part in ((f"<user>\n{turn.message}\n</user>",) if turn.message else ()) + (turn.text,)
    ]
    return "\n\n".join(said)


def _is_right(evaluation: Evaluation | None, kind: Kind | str) -> bool:
    if evaluation is None or evaluation.outcome is not Outcome.SCORED:
        return False
    return kind not in (Kind.FUNCTION, Kind.STDIO) or evaluation.correctness == 1.0


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
