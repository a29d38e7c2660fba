"""Loosen the filter, by one setting."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    chosen = recipe.get("filter", {})
    name, spread, rounds = chosen.get("name", "zero_spread"), chosen.get("spread", 1e-6), chosen.get("replace", 1)
    if name not in ("zero_spread", "none"):
        return {"filter.name": "zero_spread"}, f"filter {name} -> zero_spread: only dead groups are dropped"
    if name == "zero_spread" and spread > 1e-6:
        return {"filter.spread": 1e-6}, f"filter.spread {spread:g} -> 1e-06: small spreads count"
    if name == "zero_spread" and rounds < 16:
        new = min(16, max(2, 2 * rounds))
        return {"filter.replace": new}, f"filter.replace {rounds} -> {new}: what is dropped is made up for"
    return {}, "the filter drops dead groups only, and makes up for them"


main()
