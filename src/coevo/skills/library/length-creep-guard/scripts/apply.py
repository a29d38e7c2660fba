"""Put a soft price on length."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    reward = recipe.get("reward", {})
    parts, soft = reward.get("parts", {}), reward.get("length_soft", 0.75)
    if "length" not in parts:
        return {
            "reward.parts": {**parts, "length": 0.2}
        }, f"part length with weight 0.2: replies cost from {soft:.0%} of max_tokens on"
    if soft > 0.1:
        new = round(max(0.1, soft / 2), 4)
        return {"reward.length_soft": new}, f"reward.length_soft {soft:g} -> {new:g}: length costs earlier"
    weight = parts["length"]
    if weight < 1:
        new = min(1.0, 2 * weight)
        return {"reward.parts": {**parts, "length": new}}, f"weight of part length {weight:g} -> {new:g}"
    return {}, "length is priced as high as is sound"


main()
