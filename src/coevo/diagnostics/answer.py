"""The first line of a diagnosis: is it learning, and is that real?"""

from __future__ import annotations

from coevo.diagnostics.gaps import lacks
from coevo.diagnostics.types import Diagnosis, Finding, Level

_BAD = (Level.WARN, Level.CRITICAL)


def answer(diagnosis: Diagnosis) -> str:
    """One or two sentences."""
    blind = (
        " Whether the reward is right cannot be told: no truth was recorded."
        if lacks(diagnosis.unknown, "truth")
        else ""
    )
    return f"{_seen(diagnosis)}{blind}"


def _seen(diagnosis: Diagnosis) -> str:
    learning = diagnosis.finding("learning")
    if learning is None:
        return _worst(diagnosis)
    known = not lacks(diagnosis.unknown, "truth")
    truly = learning.reading.note.startswith(("truth", "true gain"))
    unreal = (
        _bad(diagnosis, "reward-truth-gap")
        or _bad(diagnosis, "reward-truth-agreement")
        or _bad(diagnosis, "public-hidden-gap")
    )
    if unreal is not None:
        return f"The gain is not real: {_LIES[unreal.diagnostic]} ({unreal.reading.note})."
    passes = _bad(diagnosis, "false-passes")
    if passes is not None and passes.level is Level.CRITICAL:
        return f"What passes is mostly wrong: {passes.reading.note}. {_learning(learning, truly, known)}"
    collapse = diagnosis.finding("reward-collapse")
    if collapse is not None and collapse.level is Level.CRITICAL:
        return f"It was better than it is: {collapse.reading.note}."
    return f"{_learning(learning, truly, known)}{_empty(diagnosis)}"


FEW = " Truth is known for too few rollouts to say whether that is real."
_LIES = {
    "reward-truth-gap": "the reward rises and the truth does not follow",
    "reward-truth-agreement": "within a group, what is paid is not what is right",
    "public-hidden-gap": "it gets better on the tests that are shown and not on the hidden ones",
}


def _learning(found: Finding, truly: bool, known: bool) -> str:
    note = found.reading.note
    if found.level is Level.OK:
        if truly:
            return f"It is learning, and truly: {note}."
        return f"The reward rises: {note}.{FEW if known else ''}"
    if found.level is Level.WARN:
        return f"It is not learning, as far as can be seen: {note}."
    if found.level is Level.CRITICAL:
        return f"It is getting worse: {note}."
    return f"Whether it is learning cannot be told: {note}."


def _empty(diagnosis: Diagnosis) -> str:
    """What takes the ground from under the first sentence."""
    if (lost := _bad(diagnosis, "infrastructure")) is not None and lost.level is Level.CRITICAL:
        return f" Mind that {lost.reading.note}."
    if (format := _bad(diagnosis, "format-meaning-gap")) is not None:
        return f" Mind that the gain may be format alone: {format.reading.note}."
    if (part := _bad(diagnosis, "saturated-part")) is not None and part.level is Level.CRITICAL:
        return f" Mind that {part.reading.note}."
    return ""


def _bad(diagnosis: Diagnosis, id: str) -> Finding | None:
    found = diagnosis.finding(id)
    return found if found is not None and found.level in _BAD else None


def _worst(diagnosis: Diagnosis) -> str:
    critical, warn = len(diagnosis.at(Level.CRITICAL)), len(diagnosis.at(Level.WARN))
    return f"{critical} critical, {warn} to be warned of, among {len(diagnosis.findings)} diagnostics."
