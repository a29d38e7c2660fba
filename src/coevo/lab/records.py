"""Values of the lab as plain data and back: what its events hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coevo.diagnostics.types import Diagnosis, Finding, Fired, Layer, Level, Reading
from coevo.gate.types import Calibration, Check, Judgement, Look, Status, Verdict


def diagnosis_of(data: Mapping[str, Any]) -> Diagnosis:
    """Of `Diagnosis.to_dict()`."""
    findings = tuple(
        Finding(
            diagnostic=name,
            level=Level(row["level"]),
            reading=Reading(
                value=row["value"],
                note=row["note"],
                n=row["n"],
                rows=tuple(row["rows"]),
                series=tuple((float(x), float(y)) for x, y in row["series"]),
            ),
            layer=Layer(row["layer"]),
        )
        for name, row in data["findings"].items()
    )
    fired = tuple(
        Fired(row["rule"], Level(row["level"]), row["says"], tuple(row["cites"]), tuple(row["suggests"]))
        for row in data["rules"]
    )
    return Diagnosis(findings, fired, dict(data["unknown"]), data["rows"], data["source"])


def judgement_of(data: Mapping[str, Any]) -> Judgement:
    """Of `Judgement.to_dict()`."""
    checks = tuple(
        Check(row["name"], Status(row["status"]), row["reason"], dict(row["numbers"])) for row in data["checks"]
    )
    rest = {k: v for k, v in data.items() if k not in ("verdict", "reasons", "checks")}
    return Judgement(verdict=Verdict(data["verdict"]), reasons=tuple(data["reasons"]), checks=checks, **rest)


def calibration_of(data: Mapping[str, Any]) -> Calibration:
    """Of `Calibration.to_dict()`."""
    planted = {
        name: {float(gain): float(power) for gain, power in data[name].items()} for name in ("power_at", "confirmed_at")
    }
    return Calibration(**{**data, **planted})


def look_dict(look: Look) -> dict[str, Any]:
    """Plain data, without the rows behind it: those are rollouts of the run."""
    arms = {
        name: {task: list(values) for task, values in arm.items()}
        for name, arm in (("parent", look.parent), ("child", look.child))
    }
    return {"split": look.split, "number": look.number, **arms}


def look_of(data: Mapping[str, Any]) -> Look:
    """Of `look_dict`."""
    parent, child = ({task: tuple(values) for task, values in data[name].items()} for name in ("parent", "child"))
    return Look(data["split"], data["number"], parent, child)
