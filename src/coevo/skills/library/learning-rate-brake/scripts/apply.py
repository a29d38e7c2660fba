"""Lower the learning rate."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    lr = recipe.get("lr", 1e-5)
    warning = findings.get("learning-rate-too-high", {}).get("level") == "warn"
    new = float(f"{lr / (3 if warning else 10):.2g}")
    if new < 1e-9:
        return {}, f"lr = {lr:g} is so small that it cannot be the cause"
    return {"lr": new}, f"lr {lr:g} -> {new:g}"


main()
