"""Responses that were cut off."""

import numpy as np

from coevo.diagnostics.behaviour import share
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import number
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

CUT = {"length", "max_tokens", "max_length", "truncated", "max_turns", "token_limit", "context_length_exceeded"}


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    codes, values = frame.words("stop_reason")
    cut_codes = [i for i, value in enumerate(values) if value.lower() in CUT]
    cut = np.where(codes >= 0, np.isin(codes, cut_codes).astype(float), np.nan)
    reading = share(frame, cut, "are cut off")
    rewards = frame.numbers("reward")
    now = late_rows(frame) & np.isfinite(rewards)
    if reading.value is not None and (now & (cut == 1)).any() and (now & (cut == 0)).any():
        means = [number(float(rewards[now & (cut == flag)].mean())) for flag in (1, 0)]
        reading = reading._replace(note=f"{reading.note}; mean reward {means[0]} cut, {means[1]} whole")
    return reading


def _cut(first: float, last: float, word: str = "length"):
    return lambda s: {"stop_reason": word if coin(s, ramp(s, first, last)) else "stop", "reward": coin(s, 0.4)}


DIAGNOSTIC = Diagnostic(
    id="truncation",
    title="Truncated responses",
    layer=Layer.BEHAVIOUR,
    formula="share of late rollouts whose stop reason is a limit (of tokens, of context, of turns) instead of an end",
    source="TRL issue 5697 and its clipped_ratio; prime-rl is_truncated; DAPO's overlong filtering, arXiv 2503.14476",
    needs=("stop_reason",),
    levels=Levels(0.1, 0.3),
    measure=measure,
    means="What was cut could not earn its reward, or earned one for half an answer. Either way the limit is part of what is learned.",
    advice="Raise max_tokens if right answers are long; otherwise mask cut answers from the loss, or reward length softly before the limit. See length-drift.",
    cases=(
        Case("half are cut in the end", rows_of(_cut(0.05, 0.6)), Level.CRITICAL),
        Case("a sixth are cut", rows_of(_cut(0.17, 0.17)), Level.WARN),
        Case("another word for it", rows_of(_cut(0.5, 0.5, "max_tokens")), Level.CRITICAL),
        Case("a few are", rows_of(_cut(0.03, 0.03)), Level.OK),
        Case("was cut at first, and learned to end", rows_of(_cut(0.9, -0.9)), Level.OK),
        Case("refusals are no cuts", rows_of(_cut(0.5, 0.5, "refusal")), Level.OK),
        Case("nobody says how it ended", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.UNKNOWN),
    ),
)
