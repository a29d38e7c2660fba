"""A floor under entropy; where there is one, more force behind it."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    entropy = recipe.get("entropy", {})
    if entropy.get("floor") is None:
        first = next((value for _, value in findings.get("entropy-collapse", {}).get("series", [])), None)
        floor = round(min(2.0, max(0.05, first / 4)), 3) if first is not None and first > 0 else 0.3
        return {"entropy.floor": floor}, f"entropy.floor off -> {floor:g} nats per token"
    force = entropy.get("coefficient", 0.01)
    if force < 0.1:
        new = round(min(0.1, max(0.01, 2 * force)), 6)
        return {"entropy.coefficient": new}, f"entropy.coefficient {force:g} -> {new:g}"
    return {}, "the floor already has all the force that is sound"


main()
