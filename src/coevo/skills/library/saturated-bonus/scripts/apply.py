"""Take the saturated part out of the reward."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    bonus = recipe.get("toy", {}).get("bonus", 0.0)
    if recipe.get("trainer") == "toy" and bonus:
        return {"toy.bonus": 0.0}, f"toy.bonus {bonus:g} -> 0: padding is paid no more"
    parts = dict(recipe.get("reward", {}).get("parts", {}))
    note = findings.get("saturated-part", {}).get("note", "")
    words = {word.strip(".,:;()'`\"").removeprefix("parts.") for word in note.split()}
    by_weight = sorted(parts, key=lambda name: (abs(parts[name]), name))
    named = [name for name in by_weight if name in words]
    shaping = [name for name in ("format", "length", "novelty") if name in parts]
    found = (named or shaping)[:1]
    if not found or len(parts) < 2:
        return {}, "no shaping part is in the recipe that could be taken out"
    weight = parts.pop(found[0])
    return {"reward.parts": parts}, f"reward part {found[0]} (weight {weight:g}) is taken out: everyone earns it"


main()
