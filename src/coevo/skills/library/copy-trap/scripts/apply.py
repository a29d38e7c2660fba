"""Exchange the part of the reward that makes copies safe."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


TRAPS = ("metaevolve", "difference", "absolute")


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    parts = dict(recipe.get("reward", {}).get("parts", {}))
    for old in TRAPS:
        if old in parts:
            return exchanged(
                parts, old, "search_gain"
            ), f"{old} -> search_gain: a failed try costs nothing, a copy gains nothing"
    common = findings.get("copies-of-parent", {}).get("level") in ("warn", "critical")
    if common and "search_gain" in parts and "lazy" not in parts:
        return exchanged(parts, "search_gain", "lazy"), "search_gain -> lazy: a copy costs as much as no program"
    return {}, "the reward gives a copy nothing, or charges for it"


def exchanged(parts: dict, old: str, new: str) -> dict:
    weight = parts.pop(old)
    parts[new] = parts.get(new, 0.0) + weight
    return {"reward.parts": parts}


main()
