"""Fires when the filter starves training, or makes a curve that is not there."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("repetition") in BAD and levels.get("reward-spread") in BAD:
        return False, "the filter is what holds an echo trap open"
    if levels.get("filter-illusion") == "critical" or (
        levels.get("filter-illusion") == "warn" and levels.get("dead-groups") not in BAD
    ):
        return True, "the reward of kept groups tells another story than that of all"
    if levels.get("filter-keep") not in BAD:
        return False, "the filter keeps enough, and tells no tales"
    if levels.get("dead-groups") in BAD:
        return False, "few groups are kept because they are dead"
    return True, "groups with a spread of rewards are thrown away"


main()
