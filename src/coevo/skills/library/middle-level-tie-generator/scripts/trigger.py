"""Fires when rewards tie because the reward is coarse: not because everything is solved or out of reach."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("reward-ties") not in BAD:
        return False, "rewards within a group differ"
    if levels.get("solved-groups") in BAD:
        return False, "rewards tie at the top: the states are solved"
    if levels.get("saturated-part") in BAD and levels.get("dead-groups") not in BAD:
        return False, "rewards tie because one part is saturated; the groups are alive"
    if levels.get("dead-groups") in BAD:
        return True, "rewards tie so often that groups are dead: the reward knows too few levels"
    return True, "rewards within a group tie: the reward knows too few levels"


main()
