"""Raise the limit of a reply by half."""

import json
import sys


def main() -> None:
    given = json.load(sys.stdin)
    sets, why = changed(given["recipe"], given["diagnosis"]["findings"])
    print(json.dumps({"sets": sets, "why": why}))


MOST = 32_768


def changed(recipe: dict, findings: dict) -> tuple[dict, str]:
    if recipe.get("trainer") == "toy":
        return {}, "the toy's replies have no limit"
    now = recipe.get("episode", {}).get("max_tokens", 1024)
    new = min(MOST, now + max(1, now // 2))
    if new <= now:
        return {}, f"episode.max_tokens = {now} is as high as is sound"
    return {"episode.max_tokens": new}, f"episode.max_tokens {now} -> {new}"


main()
