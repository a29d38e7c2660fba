"""Fires when entropy collapses and the learning rate is not the cause."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("entropy-collapse") not in BAD:
        return False, "entropy holds"
    others = {
        "learning-rate-too-high": "the learning rate is too high",
        "saturated-part": "a saturated part of the reward is easily had",
        "public-hidden-gap": "hard-coding the public tests is easily learned",
        "reward-truth-gap": "something is easily had that is not true",
    }
    for name, why in others.items():
        if levels.get(name) in BAD:
            return False, f"entropy is gone because {why}"
    if levels.get("entropy-collapse") == "warn" and levels.get("learning") == "ok":
        return False, "entropy is low, and it still learns: a policy that has found the answer is right to be sure"
    return True, "entropy falls away gradually: what can still be reached is what is done now"


main()
