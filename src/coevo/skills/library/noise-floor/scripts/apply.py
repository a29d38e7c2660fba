"""Raise the tolerance of the reward."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    now = recipe.get("reward", {}).get("tolerance", 0.0)
    new = 0.02 if now < 0.01 else round(min(0.1, 2 * now), 6)
    if new <= now:
        return {}, f"reward.tolerance = {now:g} is as high as is sound; measure longer instead"
    return {"reward.tolerance": new}, f"reward.tolerance {now:g} -> {new:g}: gains within it are none"


main()
