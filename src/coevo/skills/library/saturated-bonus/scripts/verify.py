"""Did it help? Truth decides where it is known on both sides; else what the skill promised of saturated-part."""

import json
import sys

WATCHED, DIRECTION, SIZE = "saturated-part", "down", 0.2
"""What should move, which way, and by how much at least."""
MARGIN = 0.02
"""Of truth: smaller differences are noise."""


def main() -> None:
    given = json.load(sys.stdin)
    word, reason = judged(given["before"], given["after"], given.get("truth") or {})
    print(json.dumps({"verdict": word, "reason": reason}))


def judged(before: dict, after: dict, truth: dict) -> tuple[str, str]:
    old, new = truth.get("before"), truth.get("after")
    if old is not None and new is not None and abs(new - old) >= MARGIN:
        return ("helped" if new > old else "hurt"), f"truth went from {old:.3g} to {new:.3g}"
    old, new = (d["findings"].get(WATCHED, {}).get("value") for d in (before, after))
    if old is None or new is None:
        return "inconclusive", f"truth did not move, and {WATCHED} is not known on both sides"
    moved = (new - old) if DIRECTION == "up" else (old - new)
    said = f"{WATCHED} went from {old:.3g} to {new:.3g}"
    if moved >= SIZE:
        return "helped", said
    return ("hurt", said) if moved <= -SIZE else ("inconclusive", f"{said}: less than {SIZE:g}")


main()
