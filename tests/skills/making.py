"""Small skills and diagnoses to test with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevo.diagnostics.types import Diagnosis, Finding, Layer, Level, Reading
from coevo.skills.reading import HEADINGS

FIRES = "import json, sys\nd = json.load(sys.stdin)\nbad = d['findings'].get('dead-groups', {}).get('level') == 'critical'\nprint(json.dumps({'fires': bad, 'why': 'dead groups'}))\n"
APPLY = "import json, sys\nrecipe = json.load(sys.stdin)['recipe']\nprint(json.dumps({'sets': {'lr': recipe['lr'] / 2}, 'why': 'halve it'}))\n"
VERIFY = "import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'verdict': 'helped', 'reason': 'so it seems'}))\n"


def findings(**levels: str) -> dict[str, Any]:
    """{"findings": ...} by diagnostic, underscores for hyphens."""
    return {"findings": {name.replace("_", "-"): {"level": level} for name, level in levels.items()}}


def diagnosis(**levels: str) -> Diagnosis:
    return Diagnosis(
        tuple(
            Finding(name.replace("_", "-"), Level(level), Reading(0.5, n=8), Layer.SIGNAL)
            for name, level in levels.items()
        )
    )


def case(name: str, expect: str, given: Mapping[str, Any], **more: Any) -> str:
    return json.dumps({"name": name, "expect": expect, "diagnosis": given, **more}) + "\n"


CASES = case("all dead", "fires", findings(dead_groups="critical")) + case(
    "nearly", "near-miss", findings(dead_groups="warn")
)


def page(name: str, *, fields: str = "", description: str = "Halves the rate. Use when groups are dead.") -> str:
    body = "\n\n".join(f"## {heading}\n\nSome text." for heading in HEADINGS)
    return f"---\nname: {name}\ndescription: {description}\n{fields}---\n\n# {name}\n\n{body}\n"


def skill_folder(
    place: Path, texts: Mapping[str, str | bytes | None] | None = None, *, name: str = "halve-rate"
) -> Path:
    """A sound skill in `place`/name; `texts` replaces files by path, None leaves one out."""
    files: dict[str, str | bytes | None] = {
        "SKILL.md": page(name),
        "scripts/trigger.py": FIRES,
        "scripts/apply.py": APPLY,
        "scripts/verify.py": VERIFY,
        "assets/cases.jsonl": CASES,
    }
    files |= texts or {}
    folder = place / name
    for path, text in files.items():
        if text is None:
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder
