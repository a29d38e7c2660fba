"""Take the saturated part out of the reward."""

import json
import re
import sys
from itertools import pairwise


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


BAD = ("warn", "critical")
MAIN = ("search_gain", "metaevolve", "difference", "absolute", "lazy")


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    bonus = recipe.get("toy", {}).get("bonus", 0.0)
    if recipe.get("trainer") == "toy" and bonus:
        return {"toy.bonus": 0.0}, f"toy.bonus {bonus:g} -> 0: padding is paid no more"
    parts = dict(recipe.get("reward", {}).get("parts", {}))
    found = named(findings, parts)
    if found is None or len(parts) < 2:
        return {}, "no shaping part is in the recipe that could be taken out"
    weight = parts.pop(found)
    return {
        "reward.parts": parts
    }, f"reward part {found} (weight {weight:g}) is taken out: it pays, and not for being right"


def named(findings: dict, parts: dict) -> str | None:
    """The part that a diagnosis names, or, where none does, a usual shaping part; never what the reward is about."""
    saturated, unfaithful = (findings.get(f"{word}-part", {}) for word in ("saturated", "unfaithful"))
    if saturated.get("level") in BAD:
        words = [word.strip(".,:;()'`") for word in saturated.get("note", "").split()]
        candidates = [word for before, word in pairwise(words) if before == "part"][:1]
    else:
        candidates = worst(unfaithful.get("note", "")) if unfaithful.get("level") in BAD else []
    candidates = candidates or ["format", "length", "novelty"]
    return next((name for name in candidates if name in parts and name not in MAIN), None)


def worst(note: str) -> list[str]:
    """Parts by their correlation with truth, the lowest first: "NAME: ... of the variance, correlation with truth NUMBER; ..."."""
    found = re.findall(r"(?:^|; )([^;]+?): [^;]*?correlation with truth (-?[0-9.]+)", note)
    return [name for _, name in sorted((float(number.rstrip(".")), name) for name, number in found)]


main()
