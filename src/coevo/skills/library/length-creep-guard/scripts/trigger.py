"""Fires when replies grow and nothing is gained by it."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels, findings)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict, findings: dict) -> tuple[bool, str]:
    if levels.get("length-drift") not in BAD:
        return False, "the length of replies holds"
    if not grew(findings["length-drift"].get("series", [])):
        return False, "replies became shorter"
    for name in ("saturated-part", "unfaithful-part", "reward-truth-gap"):
        if levels.get(name) in BAD:
            return False, f"replies grow while something is paid that is not true ({name}); that comes first"
    if levels.get("truncation") in BAD:
        return True, "replies grow until they are cut off"
    if levels.get("learning") in BAD:
        return True, "replies grow, and nothing is learned"
    return False, "replies grow while it learns, and they fit: length may be what ability costs"


def grew(series: list) -> bool:
    """Whether the course of lengths rose; without one, a drift is taken for growth."""
    third = max(1, len(series) // 3)
    first, last = ([value for _, value in part] for part in (series[:third], series[-third:]))
    return not series or sum(last) / len(last) > sum(first) / len(first)


main()
