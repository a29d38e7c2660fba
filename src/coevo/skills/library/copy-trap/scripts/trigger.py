"""Fires when handing the parent back has become the answer."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("copies-of-parent") not in BAD:
        return False, "few replies hand the parent back"
    if levels.get("solved-groups") in BAD:
        return False, "parents are handed back because nothing is left to improve"
    return True, "handing the parent back has become the safe answer"


main()
