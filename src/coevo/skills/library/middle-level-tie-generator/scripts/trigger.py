"""Fires when rewards tie because the reward is coarse: not because everything is solved or out of reach."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels, findings)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict, findings: dict) -> tuple[bool, str]:
    dead = levels.get("dead-groups") in BAD
    if levels.get("solved-groups") in BAD:
        return False, "rewards tie at the top: the states are solved"
    if dead and value(findings, "dead-groups") >= 0.98:
        return True, "no group at all has a spread: the reward tells nothing apart"
    if (
        dead
        and levels.get("solved-groups") == levels.get("hopeless-groups") == "ok"
        and value(findings, "reward-ties") >= 0.5
    ):
        return True, "groups are dead that are neither solved nor hopeless: the reward has no levels in the middle"
    if levels.get("reward-ties") not in BAD:
        return False, "rewards within a group differ"
    if levels.get("saturated-part") in BAD and not dead:
        return False, "rewards tie because one part is saturated; the groups are alive"
    return True, "rewards within a group tie: the reward knows too few levels"


def value(findings: dict, name: str) -> float:
    return findings.get(name, {}).get("value") or 0.0


main()
