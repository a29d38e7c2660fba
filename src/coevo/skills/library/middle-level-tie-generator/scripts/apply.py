"""Make the reward finer: by one setting."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    toy, reward = recipe.get("toy", {}), recipe.get("reward", {})
    if recipe.get("trainer") == "toy" and toy.get("levels") is not None:
        return {"toy.levels": None}, f"toy.levels {toy['levels']} -> all: the reward tells every fitness apart"
    tolerance = reward.get("tolerance", 0.0)
    if tolerance > 0.05:
        return {
            "reward.tolerance": tolerance / 2
        }, f"reward.tolerance {tolerance:g} -> {tolerance / 2:g}: smaller gains count"
    parts = reward.get("parts", {})
    finer = ["efficiency_only_if_correct"] if recipe.get("trainer") != "toy" else []
    for name in (*finer, "novelty"):
        if name not in parts:
            return {"reward.parts": {**parts, name: 0.1}}, f"part {name} with weight 0.1 orders rollouts that tie"
    return {}, "the reward has every finer part already"


main()
