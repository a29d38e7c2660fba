"""Texts of skills that a lab writes. @NAMES@ are filled in by `coevo.skills.writing`."""

PAGE = """---
name: "@NAME@"
description: >-
  @DESCRIPTION@
compatibility: Python 3.11 or later, nothing else. Reads the JSON of `coevo diagnose --json` (schema 1).
metadata:
  version: "1"
  origin: @ORIGIN@
  scope: @SCOPE@
  born: @BORN@
---

# @NAME@

## When it applies

@WHEN@

`scripts/trigger.py` decides it: a diagnosis on stdin, `{"fires": ..., "why": ...}` on stdout.

## What it changes

@CHANGES@

`assets/patch.yaml` holds it as data: dotted recipe names under `sets`, harness files under `files`; null removes.

## What should happen

@HAPPENS@

What its proposer thought, quoted:

> @HYPOTHESIS@

## How to check

Truth of the branch against that of the control, on tasks it has not seen. `scripts/verify.py` takes
`{"before": ..., "after": ..., "truth": {"before": ..., "after": ...}}`: both diagnoses, and the truth of both where it is known, which decides.

## When not to use it

Where its trigger is silent. It was seen to help once, under the conditions above, and nothing is known beyond them.

## History

Born of an intervention that a gate promoted. @SEEN@
That choice was made among several, so the figure flatters it. Later uses are events of labs; `references/evidence.md`, where there is one, is
written from them.
"""

TRIGGER = '''"""Fires when what was out of order where it helped is out of order here."""

import json
import sys

WANTED = @WANTED@
"""Diagnostic -> least rank."""
FINE = @FINE@
"""Diagnostics that may not be out of order."""
RANKS = @RANKS@


def main() -> None:
    findings = json.load(sys.stdin)["findings"]
    fires, why = decided({name: RANKS.get(found.get("level"), 0) for name, found in findings.items()})
    print(json.dumps({"fires": fires, "why": why}))


def decided(ranks: dict) -> tuple[bool, str]:
    for name, least in WANTED.items():
        if ranks.get(name, 0) < least:
            return False, f"{name} is not {'critical' if least == 2 else 'out of order'}"
    for name in FINE:
        if ranks.get(name, 0):
            return False, f"{name} is out of order, too"
    return True, f"as where it helped: {', '.join(WANTED)}"


main()
'''

VERIFY = '''"""Did it help? Truth decides where it is known on both sides; else what was predicted."""

import json
import sys

WATCHED, DIRECTION, SIZE = @WATCHED@, @DIRECTION@, @SIZE@
"""A diagnostic; which way its value should move, and by how much at least; without a direction: its level should fall."""
MARGIN = 0.02
"""Of truth: smaller differences are noise."""
RANKS = {"ok": 0, "warn": 1, "critical": 2}


def main() -> None:
    given = json.load(sys.stdin)
    word, reason = judged(given["before"], given["after"], given.get("truth") or {})
    print(json.dumps({"verdict": word, "reason": reason}))


def judged(before: dict, after: dict, truth: dict) -> tuple[str, str]:
    old, new = truth.get("before"), truth.get("after")
    if old is not None and new is not None and abs(new - old) >= MARGIN:
        return ("helped" if new > old else "hurt"), f"truth went from {old:.3g} to {new:.3g}"
    key = "value" if DIRECTION else "level"
    old, new = (d["findings"].get(WATCHED, {}).get(key) for d in (before, after))
    said = f"{WATCHED} went from {old} to {new}"
    if not DIRECTION:
        old, new = RANKS.get(old), RANKS.get(new)
    if old is None or new is None:
        return "inconclusive", f"truth did not move, and {WATCHED} is not known on both sides"
    moved = (new - old) if DIRECTION == "up" else (old - new)
    if moved > 0 and moved >= SIZE:
        return "helped", said
    return ("hurt", said) if moved < 0 and -moved >= SIZE else ("inconclusive", said)


main()
'''
