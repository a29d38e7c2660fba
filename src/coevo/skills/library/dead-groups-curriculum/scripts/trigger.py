"""Fires when groups are dead and it is the start states' fault: the reward has levels, and the policy still explores."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels, findings)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict, findings: dict) -> tuple[bool, str]:
    if levels.get("dead-groups") not in BAD:
        return False, "enough groups have a spread of rewards"
    others = {
        "reward-ties": "rewards tie because the reward is too coarse",
        "entropy-collapse": "the policy has stopped exploring",
        "learning-rate-too-high": "the learning rate has broken the policy",
        "infrastructure": "measurements were lost",
    }
    for name, why in others.items():
        if levels.get(name) in BAD:
            return False, f"groups are dead, but {why}"
    if levels.get("solved-groups") in BAD:
        return True, "groups are dead because their states are solved: harder ones are needed"
    if (findings["dead-groups"].get("value") or 0) >= 0.98:
        return False, "no group at all has a spread: no choice of states mends that, the reward must tell more apart"
    if levels.get("solved-groups") == levels.get("hopeless-groups") == "ok" and half_tied(findings):
        return False, "dead groups are neither solved nor hopeless: the reward is too coarse in the middle"
    if levels.get("hopeless-groups") in BAD:
        return True, "groups are dead because their states are out of reach: easier ones are needed"
    return True, "most groups teach nothing, with a reward and a policy that are otherwise sound"


def half_tied(findings: dict) -> bool:
    return (findings.get("reward-ties", {}).get("value") or 0) >= 0.5


main()
