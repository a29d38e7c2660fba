"""Fires when replies grow and nothing is gained by it."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("length-drift") not in BAD:
        return False, "replies do not grow"
    if levels.get("saturated-part") in BAD and levels.get("reward-truth-gap") in BAD:
        return False, "replies grow because a bonus pays for it; the bonus comes first"
    if levels.get("truncation") in BAD:
        return True, "replies grow until they are cut off"
    if levels.get("reward-truth-gap") in BAD:
        return True, "replies grow, and the reward leaves the truth behind"
    if levels.get("learning") in BAD:
        return True, "replies grow, and nothing is learned"
    return False, "replies grow while it learns, and they fit: length may be what ability costs"


main()
