"""Fires when steps are so large that they break the policy."""

import json
import sys

BAD = ("warn", "critical")


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    levels = {name: found.get("level", "unknown") for name, found in findings.items()}
    fires, why = decided(levels)
    print(json.dumps({"fires": fires, "why": why}))


def decided(levels: dict) -> tuple[bool, str]:
    fast = levels.get("learning-rate-too-high")
    torn = levels.get("logprob-drift") == "critical" and levels.get("entropy-collapse") == "critical"
    if fast not in BAD and not torn:
        gone = levels.get("entropy-collapse") in BAD
        return False, "entropy falls, and the steps are of a sound size" if gone else "steps are of a sound size"
    for name in ("saturated-part", "public-hidden-gap", "reward-truth-gap"):
        if levels.get(name) in BAD:
            return False, f"the policy changes fast because a hack is easily learned ({name}); that comes first"
    if fast == "critical":
        return True, "steps are so large that the policy breaks within a few of them"
    if fast == "warn":
        return True, "steps are so large that the policy changes for good within a few of them"
    return True, "log-probabilities ran away and entropy is gone"


main()
