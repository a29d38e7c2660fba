"""The three remedies of StarPO-S, one at a time."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    name = recipe.get("filter", {}).get("name", "zero_spread")
    if name != "top_uncertain":
        return {
            "filter.name": "top_uncertain"
        }, f"filter {name} -> top_uncertain: the groups with the largest spread train"
    loss = recipe.get("loss", {})
    if loss.get("kl", 0.0) > 0:
        return {"loss.kl": 0.0}, f"loss.kl {loss['kl']:g} -> 0: the policy may leave its template"
    high = loss.get("clip_high", 0.28)
    if high < 0.4:
        return {"loss.clip_high": 0.4}, f"loss.clip_high {high:g} -> 0.4: rare tokens may rise faster"
    return {}, "all three remedies are in place"


main()
