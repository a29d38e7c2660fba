"""Change where start states come from; where that is not in the recipe, replace dead groups more often."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    states, chosen = recipe.get("states", {}), recipe.get("filter", {})
    early = states.get("early", 0.5)
    if states.get("mix", {}).get("policy") and recipe.get("trainer") != "toy":
        solved = findings.get("solved-groups", {}).get("level") in ("warn", "critical")
        new = round(max(0.0, early - 0.25) if solved else min(1.0, early + 0.25), 4)
        if new != early:
            return {
                "states.early": new
            }, f"states.early {early:g} -> {new:g}: {'harder' if solved else 'easier'} start states"
    if chosen.get("name", "zero_spread") == "none":
        return {"filter.name": "zero_spread"}, "dead groups are found, and replaced by fresh states"
    rounds = chosen.get("replace", 1)
    if rounds < 16:
        new = min(16, max(2, 2 * rounds))
        return {
            "filter.replace": new
        }, f"filter.replace {rounds} -> {new}: more fresh states in the place of dead groups"
    return {}, "dead groups are replaced as often as can be; the tasks themselves must change"


main()
