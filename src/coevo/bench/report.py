"""What a study found, as plain data: every number that tables, pictures and pages show, with the runs it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coevo import __version__
from coevo.bench import metrics
from coevo.bench.comparing import Band, Difference, band, compare, corrected
from coevo.bench.plan import Unit, arms_table, plan, policies, study_digest
from coevo.bench.probes import VARIANTS, loss_by
from coevo.bench.settings import REFERENCE, StudyConfig
from coevo.bench.study import config_of, facts_of, noise, records_of, results_of
from coevo.bench.types import SearchRecord, Training
from coevo.runs import Run
from coevo.streams import stream_seed

SCHEMA = 1


def report_of(run: Run) -> dict[str, Any]:
    """Everything a study's run says so far; a study that is not finished says so in `complete`."""
    config, facts, results = config_of(run), facts_of(run), results_of(run)
    units = plan(config)
    done = [unit for unit in units if unit.key in results]
    records = records_of(results, done, "test")
    suite: Mapping[str, Mapping[str, Any]] = facts.get("suite", {})
    splits = [name for name in config.suite.test if any(record.suite == name for record in records)]
    return {
        "schema": SCHEMA,
        "coevo": __version__,
        "name": config.name,
        "title": config.title or config.name,
        "study": study_digest(config.model_dump(mode="json")),
        "complete": len(done) == len(units),
        "units": {"done": len(done), "planned": len(units)},
        "seconds": _seconds(results, units),
        "seeds": config.seeds,
        "budget": str(config.budget),
        "round": config.search.batch,
        "policy": facts.get("policy", {}),
        "suite": suite,
        "detectable": {name: vars(d) for name, d in noise(config, suite, results).items()} if suite else {},
        "arms": _arms(config),
        "primary": [list(c) for c in config.comparisons],
        "table": _table(config, splits, records),
        "families": {name: _families(config, [r for r in records if r.suite == name]) for name in splits},
        "differences": [_plain(d) for d in differences(config, splits, records)],
        "curves": {name: _curves(config, [r for r in records if r.suite == name]) for name in splits},
        "rounds": {
            name: {
                arm: metrics.gain_by_round([r for r in records if r.suite == name and r.arm == arm])
                for arm in config.arms
            }
            for name in splits
        },
        "training": _training(results, done),
        "selection": {
            f"{unit.arm}/{unit.seed}": {key: results[unit.key][key] for key in ("checkpoint", "scores")}
            for unit in done
            if unit.phase == "select"
        },
        "probes": _probes(config, results, done),
        "holdout": [
            {"arm": unit.arm, "seed": unit.seed, "split": unit.split, **results[unit.key]["touches"]}
            for unit in done
            if unit.phase == "test"
        ],
        "searches": [_row(record) for record in records],
    }


def differences(config: StudyConfig, splits: Sequence[str], records: Sequence[SearchRecord]) -> list[Difference]:
    """The primary comparisons, then every arm against the reference on every test split; Holm's correction within each."""
    primary = {(arm, other, split) for arm, other, split in config.comparisons}
    found: list[Difference] = []
    for split in splits:
        pairs = [(arm, other, True) for arm, other, where in config.comparisons if where == split]
        if REFERENCE in config.arms:
            pairs += [
                (arm, REFERENCE, False)
                for arm in config.arms
                if arm != REFERENCE and (arm, REFERENCE, split) not in primary
            ]
        found += compare(records, pairs, suite=split, seed=config.seed)
    return corrected(found)


def _arms(config: StudyConfig) -> list[dict[str, Any]]:
    headers, rows = arms_table(config)
    return [dict(zip(("arm", "policy", "search", "recipe", "what"), row, strict=True)) for row in rows if headers]


def _table(config: StudyConfig, splits: Sequence[str], records: Sequence[SearchRecord]) -> list[dict[str, Any]]:
    return [
        {"split": split, "arm": arm, **metrics.summary([r for r in records if r.suite == split and r.arm == arm])}
        for split in splits
        for arm in config.arms
    ]


def _families(config: StudyConfig, records: Sequence[SearchRecord]) -> list[dict[str, Any]]:
    """Verified fitness per family of tasks, by arm: where a difference comes from."""
    found = []
    for family in sorted({record.family for record in records}):
        mine = [record for record in records if record.family == family]
        fitness = {arm: metrics.METRICS["fitness"].of([r for r in mine if r.arm == arm]) for arm in config.arms}
        found.append({"family": family, "tasks": len({record.task for record in mine}), "fitness": fitness})
    return found


def _curves(config: StudyConfig, records: Sequence[SearchRecord]) -> dict[str, dict[str, Any]]:
    """evolve@k per arm with its band over tasks and seeds, and its difference from the reference's, paired."""
    tables = {
        arm: {
            (r.seed, r.task): values
            for r in records
            if r.arm == arm and (values := metrics.curve(r, config.evaluations - 1)) is not None
        }
        for arm in config.arms
    }
    found: dict[str, dict[str, Any]] = {}
    for arm, table in tables.items():
        draw = stream_seed(config.seed, "band", arm) % 2**63
        drawn = band(table, seed=draw)
        if drawn is None:
            continue
        base = tables.get(REFERENCE, {})
        paired = {
            cell: [a - b for a, b in zip(values, base[cell], strict=True)]
            for cell, values in table.items()
            if arm != REFERENCE and cell in base
        }
        found[arm] = {**_band(drawn), "difference": _band(band(paired, seed=draw))}
    return found


def _band(drawn: Band | None) -> dict[str, Any]:
    return {"points": drawn.points, "low": drawn.low, "high": drawn.high} if drawn else {}


def _training(results: Mapping[str, Mapping[str, Any]], done: Sequence[Unit]) -> list[dict[str, Any]]:
    found = []
    for unit in done:
        if unit.phase == "train":
            data = {name: value for name, value in results[unit.key].items() if name != "seconds"}
            training = Training.from_dict(data)
            found.append({**training.to_dict(), "seconds": round(float(results[unit.key]["seconds"]), 1)})
    return found


def _probes(
    config: StudyConfig, results: Mapping[str, Mapping[str, Any]], done: Sequence[Unit]
) -> list[dict[str, Any]]:
    """Per policy and variant: gain per reply, and what the spoilt part was worth."""
    rows = [row for unit in done if unit.phase == "probe" for row in results[unit.key]["probes"]]
    found = []
    for arm in policies(config):
        mine = [row for row in rows if row["arm"] == arm]
        for variant in VARIANTS:
            some = [row for row in mine if row["variant"] == variant]
            if not some:
                continue
            loss = loss_by(mine, variant, seed=config.seed % 2**63) if variant != "true" else None
            found.append(
                {
                    "arm": arm,
                    "variant": variant,
                    "states": len({row["state"] for row in some}),
                    "replies": sum(row["samples"] for row in some),
                    **{name: sum(row[name] for row in some) / len(some) for name in ("gain", "improving", "copies")},
                    "loss": list(loss) if loss else None,
                }
            )
    return found


def _seconds(results: Mapping[str, Mapping[str, Any]], units: Sequence[Unit]) -> dict[str, float]:
    """Wall seconds by phase, and in all."""
    total: dict[str, float] = {}
    for unit in units:
        if unit.key in results:
            total[unit.phase] = total.get(unit.phase, 0.0) + float(results[unit.key]["seconds"])
    return {name: round(value, 1) for name, value in {**total, "all": sum(total.values())}.items()}


def _plain(difference: Difference) -> dict[str, Any]:
    row = dict(vars(difference))
    for name in ("interval", "over_tasks"):
        row[name] = list(row[name])
    return row


def _row(record: SearchRecord) -> dict[str, Any]:
    row = record.to_dict()
    del row["steps"], row["wall_s"]
    return {**row, "digest": record.digest[:16], "gain": record.gain}
