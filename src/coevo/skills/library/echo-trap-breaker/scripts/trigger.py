"""Fires when replies echo and rewards draw together, or when replies have become a template."""

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
        return True, "replies repeat themselves while rewards within a group draw together"
    hacks = {
        "copies-of-parent": "they hand the parent back",
        "saturated-part": "a saturated part of the reward pays for one reply",
        "public-hidden-gap": "hard-coding the public tests pays",
        "reward-truth-gap": "something pays that is not true",
    }
    for name, why in hacks.items():
        if levels.get(name) in BAD:
            return False, f"where replies are alike, it is because {why}"
    if levels.get("template-collapse") == "critical":
        return True, "replies to different prompts have become one template"
    if levels.get("repetition") in BAD:
        return False, "replies repeat themselves, and rewards still spread"
    return False, "replies do not echo"


main()
