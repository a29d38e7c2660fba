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
    if levels.get("learning-rate-too-high") in BAD:
        return False, "entropy collapsed because the learning rate is too high"
    return True, "entropy falls away gradually: what can still be reached is what is done now"


main()
