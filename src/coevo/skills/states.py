"""What is believed of a skill: a fold over its uses. Nothing is stored but the uses, so a better rule is a better reading of the same past."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coevo.skills.types import Origin, Outcome, Skill, SkillState, Use
from coevo.stats import sign_flip_p

TRUST_ALPHA = 0.1
"""One-sided level at which a skill beats the control. Exact over sign patterns, so fewer than four pairs never do (1/8 > 0.1)."""
TRUST_CONTEXTS = 2
"""Distinct contexts in which it must have helped."""
_SETTLED = (Outcome.HELPED, Outcome.HURT, Outcome.INCONCLUSIVE, Outcome.INVALID)


class Record(NamedTuple):
    """A skill's uses, counted."""

    fired: int = 0
    applied: int = 0
    helped: int = 0
    hurt: int = 0
    inconclusive: int = 0
    invalid: int = 0
    contexts: tuple[str, ...] = ()
    """In which it helped, in order."""
    labs: int = 0
    """In which it helped."""
    gains: tuple[float, ...] = ()
    """Difference less the control's, of every settled use that has both."""

    @property
    def settled(self) -> int:
        return self.helped + self.hurt + self.inconclusive + self.invalid

    @property
    def chance(self) -> float:
        """Posterior mean of "the next use helps": Beta(1 + helped, 1 + settled uses that did not), from a flat prior."""
        return (1 + self.helped) / (2 + self.settled)


class Standing(NamedTuple):
    """A skill's state and why."""

    state: SkillState
    reasons: tuple[str, ...]
    record: Record


def record_of(uses: Iterable[Use]) -> Record:
    """Count the uses of one skill. Differences that are not finite count as missing."""
    uses = list(uses)
    count = {outcome: sum(use.outcome == outcome for use in uses) for outcome in Outcome}
    helped = [use for use in uses if use.outcome == Outcome.HELPED]
    pairs = [
        use.difference - use.control
        for use in uses
        if use.outcome in _SETTLED and use.difference is not None and use.control is not None
    ]
    return Record(
        fired=count[Outcome.FIRED],
        applied=count[Outcome.APPLIED],
        helped=count[Outcome.HELPED],
        hurt=count[Outcome.HURT],
        inconclusive=count[Outcome.INCONCLUSIVE],
        invalid=count[Outcome.INVALID],
        contexts=tuple(dict.fromkeys(use.context for use in helped)),
        labs=len({use.lab for use in helped}),
        gains=tuple(gain for gain in pairs if math.isfinite(gain)),
    )


def state_of(
    uses: Sequence[Use], *, cases_hold: bool, origin: Origin | str = Origin.IMPORTED, tombstone: str = ""
) -> Standing:
    """The state of one skill, from its uses (of this skill alone), whether its cases hold, and a tombstone's reason if it has one.

    demoted: a tombstone; or ever invalid; or hurt more often than it helped. candidate: its cases do not hold. trusted: helped in a real run and in two distinct
    contexts, and ahead of the control over all settled uses that have one (sign-flip test on the mean of the paired differences, exact, one-sided
    at `TRUST_ALPHA`). Else validated. `origin` decides nothing: it is said beside the state, since a claim is no evidence.
    """
    record = record_of(uses)
    if tombstone:
        return Standing(SkillState.DEMOTED, (tombstone,), record)
    if record.invalid:
        times = "once" if record.invalid == 1 else f"{record.invalid} times"
        return Standing(
            SkillState.DEMOTED, (f"was invalid {times}: a gain that was none, or a script that broke",), record
        )
    if record.hurt > record.helped:
        return Standing(SkillState.DEMOTED, (f"hurt {record.hurt} times and helped {record.helped}",), record)
    if not cases_hold:
        return Standing(SkillState.CANDIDATE, (f"{origin}: its cases do not hold here",), record)
    missing = _missing(record)
    if not missing:
        where = ", ".join(record.contexts)
        said = f"helped {record.helped} of {record.settled} times, in {where}; ahead of the control by {_mean(record.gains):+.3g}"
        return Standing(SkillState.TRUSTED, (f"{said} (p = {_p(record.gains):.2g})",), record)
    return Standing(SkillState.VALIDATED, (f"{origin}: its cases hold", *missing), record)


def offered(skill: Skill, context: str, uses: Sequence[Use], *, any_domain: bool = False) -> tuple[bool, str]:
    """Whether a skill is proposed in a context ("code/mini"), and why. `uses` may hold other skills' too.

    At home (its scope names the domain, or is empty) it is, unless it hurt more than it helped in this very context. In a foreign domain only after it
    helped in two distinct contexts. `any_domain` lets foreign ones through (a lab that has run out of ideas).
    """
    own = [use for use in uses if use.skill == skill.name]
    here = record_of(use for use in own if use.context == context)
    if here.hurt > here.helped:
        return False, f"in {context} it hurt {here.hurt} times and helped {here.helped}"
    domain = context.partition("/")[0]
    if not skill.scope:
        return True, "it is for any domain"
    if domain in skill.scope:
        return True, f"it is for {domain}"
    helped = record_of(own).contexts
    if len(helped) >= TRUST_CONTEXTS:
        return (
            True,
            f"it is for {', '.join(skill.scope)}, and has helped in {len(helped)} contexts ({', '.join(helped)})",
        )
    if any_domain:
        return True, f"it is for {', '.join(skill.scope)}; other domains' skills were asked for"
    return False, (
        f"it is for {', '.join(skill.scope)}, not {domain}, and has helped in {len(helped)} contexts; "
        f"{TRUST_CONTEXTS} are needed to carry it over"
    )


def _missing(record: Record) -> list[str]:
    """What keeps a validated skill from being trusted."""
    found = []
    if not record.helped:
        found.append("has not helped in a real run yet")
    elif len(record.contexts) < TRUST_CONTEXTS:
        found.append(f"has helped in one context only ({record.contexts[0]}); {TRUST_CONTEXTS} are needed")
    if record.helped and (p := _p(record.gains)) > TRUST_ALPHA:
        pairs = f"{len(record.gains)} paired use{'s' if len(record.gains) != 1 else ''}"
        found.append(
            f"not shown to beat the control: {pairs}, mean {_mean(record.gains):+.3g}, p = {p:.2g} over {TRUST_ALPHA:g}"
        )
    return found


def _p(gains: Sequence[float]) -> float:
    return sign_flip_p(gains, seed=0, alternative="greater")


def _mean(gains: Sequence[float]) -> float:
    return math.fsum(gains) / len(gains) if gains else 0.0
