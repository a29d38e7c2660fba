"""How one records a column that is missing: what a diagnosis tells besides that it is missing."""

from __future__ import annotations

from coevo.evidence.types import Frame

LACKING, BETWEEN = "no column", " / "
"""How a reason that names missing columns begins, and what stands between several."""

HOW = {
    "step": "number the optimizer steps",
    "group": "name the group (one prompt's rollouts) that the advantage was computed in",
    "task": "name the task or prompt of a rollout",
    "sample": "number the rollouts of a group",
    "split": "say what a rollout was for: train, eval",
    "reward": "write what training saw, before any filter; null with unmeasured_reason where there is none",
    "truth": "judge (a share of) the rollouts on hidden tests that no reward sees, in [0, 1]",
    "fitness": "write the judge's score on the tests that the reward sees",
    "parent_fitness": "write the score of the program that the rollout started from",
    "correctness": "write the share of tests passed",
    "parts": 'write the reward\'s summands by name: {"parts": {"format": 0.1, "tests": 0.5}}',
    "contract_ok": "say whether the reply could be parsed",
    "copy": "say whether the reply handed back the program it was given",
    "meaning_ok": "say whether what was parsed is right",
    "tokens": "count the sampled tokens",
    "stop_reason": "say why a reply ended: stop, length, timeout",
    "advantage": "write the advantage that the loss used",
    "logprob_mean": "write the mean log-probability of the sampled tokens, as the sampler gave it",
    "entropy_mean": "write the mean entropy of the policy over the sampled tokens",
    "kept": "record dropped rollouts, too, with kept = false",
    "unmeasured_reason": "record rollouts that were lost, with the reason; empty for the others",
    "program_hash": "hash the normal form of the program that a reply holds",
    "turns": "count the turns",
    "tool_calls": "count the tool calls",
    "tool_errors": "count the tool calls that failed",
    "wall_s": "time a rollout",
}


def missing(frame: Frame, needs: tuple[str, ...]) -> str:
    """Which of the columns a diagnostic needs are not there, and how to record them; empty if all are. `|` separates alternatives."""
    lines = []
    for need in needs:
        names = need.split("|")
        if not any(_has(frame, name) for name in names):
            column = " or ".join(f"'{name}'" for name in names)
            said = how(names[0])
            lines.append(f"{LACKING} {column}{': ' + said if said else ''}")
    return BETWEEN.join(lines)


def _has(frame: Frame, name: str) -> bool:
    return bool(frame.parts) if name == "parts" else frame.has(name)


def how(name: str) -> str:
    """How one records a column; empty where nothing is known of it."""
    if name.startswith("text."):
        return "it is computed from prompts and responses that hold such a thing"
    return HOW.get(name, "")
