"""Fires when a part of the reward pays for nothing: earned by everyone, or at odds with truth, while no test leaks."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    part, gap = levels.get("saturated-part"), levels.get("reward-truth-gap")
    if levels.get("public-hidden-gap") in BAD:
        return False, "the main part itself gains on public tests only; that comes first"
    if levels.get("unfaithful-part") in BAD:
        return True, "much of what is compared comes from a part of the reward that has nothing to do with truth"
    if part in BAD and gap in BAD:
        return True, "a saturated part lifts the reward above the truth"
    if part in BAD and levels.get("format-meaning-gap") in BAD:
        return True, "the part that pays for form is earned, and meaning stays behind"
    if part == "critical":
        return True, "everyone earns a part of the reward: it teaches nothing more"
    if gap == "critical" and levels.get("public-hidden-gap") == "ok":
        return True, "the reward rises and truth does not, and no test leaks: something beside the tests is paid"
    return (
        False,
        "no part of the reward is saturated or at odds with truth"
        if part not in BAD
        else "a part is nearly saturated, and truth follows the reward",
    )


main()
