"""Fires when replies are cut off that neither grew nor went round in circles."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("truncation") not in BAD:
        return False, "replies end by themselves"
    if levels.get("length-drift") in BAD:
        return False, "replies are cut off because they grow"
    if levels.get("repetition") in BAD:
        return False, "replies are cut off because they go round in circles"
    return True, "replies are cut off before they are done"


main()
