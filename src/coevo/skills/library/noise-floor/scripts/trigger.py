"""Fires when the measurement's own noise is paid, and rewards do not tie already."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    if levels.get("reward-noise") not in BAD:
        return False, "a program earns the same when it is measured again (or it is not known)"
    if levels.get("reward-ties") in BAD:
        return False, "rewards tie already; a tolerance would make more ties"
    return True, "part of what is paid is the measurement's noise"


main()
