"""Studies that come with coevo, by name. Each is plain settings: `coevo bench NAME --set ...` changes any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevo.bench.settings import ARMS, StudyConfig
from coevo.config import parse, read_yaml, with_sets
from coevo.errors import ConfigError, UsageError, pick

Say = Callable[[str], None]

_FUNCTIONS = (
    "component_sizes",
    "edit_distance",
    "exact_cover",
    "inversions",
    "knapsack",
    "longest_balanced",
    "matrix_chain",
)
_SEARCH: dict[str, Any] = {"batch": 4, "islands": 1, "population": 64, "migrate_every": 0, "stall": None}
_OPEN = ("heilbronn_triangle", "circle_packing", "difference_basis")
_PILOT = ("palindromes", "string_period", "sliding_maximum")


def meta(*, quick: bool) -> dict[str, Any]:
    """The CPU-scale study: every arm, with the model that is trained here from nothing, on its puzzles."""
    sizes = (
        {"train": 24, "validation": 9, "id": 9, "ood": 12}
        if quick
        else {"train": 96, "validation": 24, "id": 32, "ood": 40}
    )
    model = "mini:tiny" if quick else "mini"
    return {
        "name": "meta-quick" if quick else "meta",
        "title": "Evolution-aware training at CPU scale",
        "model": f"{model},max_tokens=48,batch=128,threads=2",
        "seeds": 2 if quick else 3,
        # The mini model has some 0.6 nats a token before training. Without a floor it falls to half, and late rounds repeat early ones.
        "arms": {name: {"recipe": {"entropy.floor": 0.6}} if name == "evolve_search" else {} for name in ARMS},
        "suite": {
            "name": "mini",
            "train": [f"mini:train:{sizes['train']}"],
            "validation": [f"mini:validation:{sizes['validation']}"],
            "test": {"id": [f"mini:test:{sizes['id']}"], "ood": [f"mini:unseen:{sizes['ood']}"]},
            "ngram": None,
        },
        # The prompt as the mini model was pre-trained on it: one earlier attempt, no other programs.
        "search": {
            **_SEARCH,
            "inspirations": 0,
            "history": 1,
            "repair": 0.0,
            "target": 1.0,
            "proposers": {"rewrite": 1.0},
        },
        "evaluations": 13 if quick else 25,
        "tokens": 4000 if quick else 6000,
        "recipe": {
            "steps": 6 if quick else 100,
            "groups": 6 if quick else 12,
            "group_size": 8 if quick else 16,
            "lr": 5e-4,
            "schedule": "linear",
            "filter": {"name": "zero_spread", "replace": 0},
            "episode": {"truth": 0.125},
            "allow_cheats": True,
        },
        "states": {"tasks": 12 if quick else 64, "evaluations": 13 if quick else 25},
        "probe": {"states": 8 if quick else 64, "samples": 2 if quick else 4},
    }


def real(*, quick: bool, data: Path, notify: Say) -> dict[str, Any]:
    """A real language model of 135 million parameters on easy data set tasks: tens of steps, to see the loop close, not to prove."""
    train, tests = (
        imported(data / "mbpp.jsonl", "mbpp", notify),
        imported(data / "humaneval.jsonl", "humaneval", notify),
    )
    return {
        "name": "real-quick" if quick else "real",
        "title": "SmolLM2-135M-Instruct on MBPP and HumanEval",
        "model": "local,max_tokens=192,temperature=0.7,batch=32,threads=2",
        "seeds": 1,
        "arms": ["search", "direct"],
        "suite": {
            "name": "real",
            "train": [str(train)],
            "validation": [],
            "test": {"ood": [str(tests)]},
            "limit": {"train": 8 if quick else 48, "ood": 4 if quick else 24},
            "overlap": "drop",
        },
        "search": {**_SEARCH, "proposers": {"rewrite": 1.0}},
        "evaluations": 5 if quick else 9,
        "proposals": 4 if quick else 8,
        "recipe": {
            "steps": 2 if quick else 24,
            "groups": 2 if quick else 4,
            "group_size": 4 if quick else 8,
            "lr": 1e-5,
            "filter": {"name": "zero_spread", "replace": 0},
            "episode": {"truth": 1.0},
            "allow_cheats": True,
        },
        "select": 1,
        "probe": {"states": 0},
        "parallel": 8,
    }


def library(*, quick: bool, model: str) -> dict[str, Any]:
    """Any model at all, untrained, on shipped tasks: what a search adds to it, and what refining or sampling would."""
    tests = {"function": list(_FUNCTIONS[: 3 if quick else None]), "open": list(_OPEN[: 1 if quick else None])}
    return {
        "name": "library-quick" if quick else "library",
        "title": f"{model} on shipped tasks, untrained",
        "model": model,
        "seeds": 1 if quick else 2,
        "arms": ["best_of_n", "self_refine", "search"],
        "suite": {"name": "library", "validation": list(_PILOT[: 2 if quick else None]), "test": tests, "unseen": []},
        "search": {**_SEARCH, "proposers": {"rewrite": 1.0, "diff": 1.0}},
        "evaluations": 9 if quick else 25,
        "proposals": 12 if quick else 32,
        "select": 1,
        "probe": {"states": 0},
        "parallel": 4,
        "keep_runs": True,
    }


NAMES = ("meta", "real", "library")


def study_of(
    name: str,
    *,
    quick: bool = False,
    model: str | None = None,
    data: Path | None = None,
    seeds: int | None = None,
    arms: list[str] | None = None,
    sets: list[str] | None = None,
    notify: Say = lambda line: None,
) -> StudyConfig:
    """A study by its name or its YAML file, with what the command line changes. Raises `ConfigError`."""
    settings = _settings(name, quick=quick, model=model, data=data, notify=notify)
    if model is not None:
        settings["model"] = model
    if seeds is not None:
        settings["seeds"] = seeds
    if arms is not None:
        given = settings.get("arms")
        own = given if isinstance(given, dict) else {}
        settings["arms"] = {arm: own.get(arm, {}) for arm in arms}
    return parse(StudyConfig, with_sets(settings, sets or []), where=f"study {name}")


def _settings(name: str, *, quick: bool, model: str | None, data: Path | None, notify: Say) -> dict[str, Any]:
    if name.endswith((".yaml", ".yml")) or Path(name).is_file():
        if quick:
            raise UsageError("--quick makes a study that comes with coevo small; a file says itself how large it is")
        return read_yaml(Path(name))
    pick(name, dict.fromkeys(NAMES, 0), kind="study (or STUDY.yaml)")
    if name == "meta":
        return meta(quick=quick)
    if name == "real":
        if data is None:
            raise UsageError("study 'real' needs --data DIR, a folder with mbpp.jsonl and humaneval.jsonl")
        return real(quick=quick, data=data, notify=notify)
    if model is None:
        raise UsageError("study 'library' needs --model SPEC, as in --model openai:NAME@URL or --model local")
    return library(quick=quick, model=model)


def imported(file: Path, source: str, notify: Say) -> Path:
    """A folder of tasks made from a data set's file: in the cache, by the file's hash, so that it is made once."""
    from coevo.models.weights import cache_folder
    from coevo.tasks.importers import import_humaneval, import_mbpp
    from coevo.tasks.importers.folders import RULE

    try:
        with file.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as e:
        raise ConfigError(
            f"cannot read {file}: {e.strerror or e}; --data takes a folder with mbpp.jsonl and humaneval.jsonl"
        ) from None
    folder = cache_folder() / "tasks" / f"{source}-{digest[:12]}-{RULE}"
    done = folder / ".complete"
    if not done.exists():
        notify(f"importing {file} into {folder}, once")
        folder.mkdir(parents=True, exist_ok=True)
        run = {"mbpp": import_mbpp, "humaneval": import_humaneval}[source]
        notify(f"{source}: {run(file, folder).counts}")
        done.touch()
    return folder
