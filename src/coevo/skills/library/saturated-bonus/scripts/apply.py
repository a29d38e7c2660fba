"""Take the saturated part out of the reward."""

import json
import sys
from itertools import pairwise


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


MAIN = ("search_gain", "metaevolve", "difference", "absolute", "lazy")


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    bonus = recipe.get("toy", {}).get("bonus", 0.0)
    if recipe.get("trainer") == "toy" and bonus:
        return {"toy.bonus": 0.0}, f"toy.bonus {bonus:g} -> 0: padding is paid no more"
    parts = dict(recipe.get("reward", {}).get("parts", {}))
    found = named(findings.get("saturated-part", {}).get("note", ""), parts)
    if found is None or len(parts) < 2:
        return {}, "no shaping part is in the recipe that could be taken out"
    weight = parts.pop(found)
    return {"reward.parts": parts}, f"reward part {found} (weight {weight:g}) is taken out: everyone earns it"


def named(note: str, parts: dict) -> str | None:
    """The part that the diagnosis names ("part NAME ..."), or, where it names none, a usual shaping part; never what the reward is about."""
    words = [word.strip(".,:;()'`") for word in note.split()]
    after = [word for before, word in pairwise(words) if before == "part"]
    candidates = after[:1] or ("format", "length", "novelty")
    return next((name for name in candidates if name in parts and name not in MAIN), None)


main()
