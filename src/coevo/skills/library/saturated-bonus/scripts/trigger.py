"""Fires when a part of the reward is earned by everyone, or nearly so while truth or meaning stay behind."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    part = levels.get("saturated-part")
    if part not in BAD:
        return False, "no part of the reward is saturated"
    if levels.get("public-hidden-gap") in BAD:
        return False, "the main part itself gains on public tests only; that comes first"
    if levels.get("reward-truth-gap") in BAD:
        return True, "a saturated part lifts the reward above the truth"
    if levels.get("format-meaning-gap") in BAD:
        return True, "the part that pays for form is earned, and meaning stays behind"
    if part == "critical":
        return True, "everyone earns a part of the reward: it teaches nothing more"
    return False, "a part is nearly saturated, and truth follows the reward"


main()
