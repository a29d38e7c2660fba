"""Fires when handing the parent back has become the answer."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels, findings)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict, findings: dict) -> tuple[bool, str]:
    copies = levels.get("copies-of-parent", "unknown")
    if copies == "unknown":
        return unseen(levels)
    if copies not in BAD:
        return False, "few replies hand the parent back"
    if levels.get("solved-groups") in BAD:
        return False, "parents are handed back because nothing is left to improve"
    if copies == "warn" and (findings.get("dead-groups", {}).get("value") or 0.0) >= 0.98:
        return False, "no group has a spread: the reward teaches nothing, copying neither"
    return True, "handing the parent back has become the safe answer"


def unseen(levels: dict) -> tuple[bool, str]:
    """Copies cannot be told from the evidence; that failing less is paid, and gaining more is not, can."""
    hacks = ("saturated-part", "unfaithful-part", "public-hidden-gap")
    if levels.get("reward-truth-gap") in BAD and all(levels.get(name) == "ok" for name in hacks):
        return (
            True,
            "the reward rises and truth does not, by no bonus and no leak: not trying may have become the safe answer",
        )
    return False, "copies cannot be told from this evidence"


main()
