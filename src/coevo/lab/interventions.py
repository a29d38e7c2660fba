"""What an intervention may change, what it comes to, and why one is refused.

A change is judged by what it does to the resolved recipe and the harness's files, never by what it says of itself: applied, it must change
exactly one thing (or be a bundle with a plan for taking it apart again), something that may change, and something that matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

from coevo.config import leaves, parse
from coevo.errors import ConfigError, UsageError
from coevo.lab.harness import RECIPE, recipe_text, safe_path
from coevo.lab.settings import LabConfig
from coevo.lab.types import Change, Family
from coevo.runs.jsontext import dumps
from coevo.training.branch import changes
from coevo.training.own import is_own
from coevo.training.settings import Recipe

ALLOWED: Mapping[str, str] = {
    "reward.parts": "the reward's parts and their weights, all of them: {name: weight}",
    "reward.parts.*": "one part's weight; null takes the part out",
    "reward.no_program": "what a reply without a program earns",
    "reward.worse": "what a regression earns",
    "reward.tolerance": "gains that count as none",
    "reward.length_soft": "from where length costs",
    "toy.bonus": "trainer toy: the shaped reward for padding",
    "toy.leak": "trainer toy: what hard-coding public tests earns on them",
    "toy.levels": "trainer toy: levels of fitness that the reward tells apart; null: all",
    "advantage.*": "from rewards to advantages",
    "filter.*": "which groups are trained on",
    "entropy.*": "floor under the policy's entropy",
    "loss.*": "loss of the GRPO family: name, clipping, KL, entropy",
    "optim.*": "optimizer",
    "lr": "learning rate",
    "schedule": "of the learning rate",
    "warmup": "steps of it",
    "epochs": "passes over a step's rows; groups x group_size x epochs may not grow over the first recipe's",
    "max_kl": "stop beyond this divergence",
    "groups": "start states per step; groups x group_size may not grow over the first recipe's",
    "group_size": "rollouts per start state",
    "states.mix": "shares of the sources of start states: {name: share}",
    "states.mix.*": "one share",
    "states.early": "policy states: share from early in the searches",
    "states.refresh": "policy states: steps between searches",
    "states.searches": "policy states: tasks searched at a refresh",
    "episode.*": "turns, limits, temperature, prompt",
}
"""Dotted recipe names and harness paths (patterns) -> what they are. Judge, gate, splits, steps, seeds and budgets are not among them, and no
setting of a lab can put them there (`SEALED`).

Not among them by default, either: `rewards/*.py`, files with reward functions, named in reward.parts as rewards/FILE.py:FUNCTION. Such code
runs in workers outside the sandbox, so a lab must say `allowed: {"rewards/*.py": "reward functions"}` to trust its agent with it."""

SEALED = (
    *("seed", "steps", "trainer", "base", "states.tasks", "states.runs", "states.trajectories", "states.limit"),
    *(
        "evaluate.*",
        "sandbox.*",
        "pool",
        "sinks",
        "command",
        "checkpoint_every",
        "checkpoints",
        "allow_cheats",
        "engine.*",
    ),
    *("episode.truth", "trl.*", "toy.noise", "toy.unmeasured", "toy.lr_scale", "unmeasured"),
)
"""Never changed by an intervention, whatever a lab's `allowed` says."""

FAMILY: tuple[tuple[str, Family], ...] = (
    ("reward.*", Family.REWARD),
    ("rewards/*", Family.REWARD),
    ("toy.*", Family.REWARD),
    ("filter.*", Family.FILTER),
    ("states.*", Family.DATA),
    ("episode.*", Family.EPISODE),
)
"""Pattern -> family of a change; the rest are hyperparameters."""

BASE = "base"
"""change.weights.from: begin with the weights that the first branch began with."""

OWN_REWARDS = "rewards/"
"""Folder of the harness with reward functions."""

_WHOLE_LEAVES = ("parts", "mix")
_WHOLE = ("reward.parts", "states.mix")
"""Mappings that count as one thing: swapping one part for another is one idea."""


class Applied(NamedTuple):
    """A change, carried out on values."""

    recipe: dict[str, Any]
    """Of the harness: plain data, without what is the lab's."""
    files: Mapping[str, str | None]
    """Harness files to write; the recipe's own among them where it changed."""
    changed: tuple[str, ...]
    """What differs: dotted names and paths."""


def allowed(config: LabConfig) -> dict[str, str]:
    """Patterns that may change in this lab -> what they are."""
    if config.recipe.trainer != "toy":
        found = {name: what for name, what in ALLOWED.items() if not name.startswith("toy.")}
    else:
        found = {name: what for name, what in ALLOWED.items() if not name.startswith(("states.", "optim.", "episode."))}
        found |= {"optim.max_grad_norm": "bound of the gradient's norm", "episode.temperature": "of sampling"}
    found |= config.allowed
    may: dict[str, str] = {}
    for pattern, what in found.items():
        if not what or forbids(config, pattern):
            continue
        if "*" in pattern and any(not text and fnmatchcase(no, pattern) for no, text in config.allowed.items()):
            opened = (n for n in recipe_names() if fnmatchcase(n, pattern) and not _any(n, SEALED))
            may |= {name: what for name in opened if not forbids(config, name)}  # Part of what it opens is taken away.
        else:
            may[pattern] = what
    return may


def forbids(config: LabConfig, name: str) -> bool:
    """Whether a lab takes a name away: by its pattern, unless a narrower one of the lab's own gives it back ({"*": "", "lr": "..."}: only lr)."""
    for no, text in config.allowed.items():
        if text or not fnmatchcase(name, no):
            continue
        if not any(what and fnmatchcase(name, yes) and fnmatchcase(yes, no) for yes, what in config.allowed.items()):
            return True
    return False


@cache
def recipe_names() -> tuple[str, ...]:
    """Dotted names of a recipe's settings."""
    return tuple(name for name, _ in leaves(Recipe().model_dump(mode="json"), whole=_WHOLE_LEAVES))


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def family_of(change: Change) -> Family:
    """By what it changes."""
    if change.empty:
        return Family.CONTINUE
    if change.weights:
        return Family.AVERAGE if "a" in change.weights else Family.CHECKPOINT
    name = next(iter((*change.sets, *change.files)))
    return next((family for pattern, family in FAMILY if fnmatchcase(name, pattern)), Family.HYPERPARAMETER)


def apply(
    change: Change, recipe: Mapping[str, Any], config: LabConfig, files: Mapping[str, str] | None = None
) -> Applied:
    """The harness after a change. `recipe`: the parent's; `files`: path -> SHA-256 of what is there.

    Raises `UsageError` (`ConfigError` where the recipe would not be one) that says what is wrong: something that may not change, a path
    that leads out, no change at all, or more than one thing without a bundle.
    """
    _require_allowed(change, config)
    before = resolved(recipe, config)
    data = _copy(before.model_dump(mode="json"))
    for name, value in change.sets.items():
        _set(data, name, value)
    after = resolved(data, config)
    _require_bounds(after, config)
    leaves = _things(before, after)
    known = files or {}
    _require_own_rewards(
        before, after, {*known, *change.files} - {n for n, text in change.files.items() if text is None}, config
    )
    written = {name: text for name, text in change.files.items() if _differs(name, text, known)}
    _require_one(change, leaves, written)
    new = lean(after)
    texts: dict[str, str | None] = dict(written)
    if leaves:
        texts[RECIPE] = recipe_text(new)
    return Applied(new, texts, (*leaves, *written))


def resolved(recipe: Mapping[str, Any], config: LabConfig) -> Recipe:
    """The harness's recipe as a whole one, with the lab's own tasks and steps in it."""
    data = _copy(recipe)
    data["steps"] = config.steps
    states = dict(data.get("states") or {})
    if config.tasks.train:
        states["tasks"] = list(config.tasks.train)
    data["states"] = states
    return parse(Recipe, data, where="harness recipe")


def lean(recipe: Recipe) -> dict[str, Any]:
    """What the harness holds of a recipe, as plain data: what is not the default, without what is the lab's."""
    data = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"seed", "steps"})
    if states := data.get("states"):
        states.pop("tasks", None)
        if not states:
            del data["states"]
    return data


def sealed(settings: Mapping[str, Any], judge: Mapping[str, str]) -> dict[str, str]:
    """Hashes of what no branch may change. `settings`: the lab's, as its run stores them, so that a setting which a later version adds changes no
    hash. `judge`: what the measurer says of its judge and splits."""
    values = {"gate": settings["gate"], "budget": settings["budget"], "splits": settings["tasks"]}
    return {**{name: _sha(dumps(value, canonical=True)) for name, value in values.items()}, **judge}


# Refusals


def _require_allowed(change: Change, config: LabConfig) -> None:
    may = allowed(config)
    for name in (*change.sets, *change.files):
        if any(fnmatchcase(name, pattern) for pattern in SEALED):
            what = (
                "a change of seed alone finds luck, not ability"
                if name == "seed"
                else "it belongs to the judge, the budget or the machine"
            )
            raise UsageError(f"{name!r} is sealed: {what}. What may change: {', '.join(may)}")
        if not _any(name, tuple(may)) or forbids(config, name):
            raise UsageError(f"{name!r} may not change in this lab. What may: {', '.join(may)}")
    for name in change.files:
        safe_path(name)
    if change.weights:
        _require_weights(change.weights)


def _require_weights(weights: Mapping[str, str]) -> None:
    names = set(weights)
    if names == {"from"} and (weights["from"] == BASE or "@" in weights["from"]):
        return
    if names in ({"a", "b"}, {"a", "b", "share"}):
        try:
            share = float(weights.get("share", "0.5"))
        except ValueError:
            share = -1.0
        if 0 < share < 1 and weights["a"] != weights["b"]:
            return
    raise UsageError(
        f"change.weights = {dict(weights)!r}: give {{'from': 'b1@20'}}, {{'from': {BASE!r}}}, or {{'a': 'b1', 'b': 'b2', 'share': '0.5'}} with two branches "
        "and a share between 0 and 1"
    )


def _require_bounds(after: Recipe, config: LabConfig) -> None:
    most = config.recipe.groups * config.recipe.group_size
    if after.groups * after.group_size > most:
        raise UsageError(
            f"groups = {after.groups} x group_size = {after.group_size} are more rollouts a step than the first recipe's {most}: a branch may "
            "not buy its gain. Lower the other one (a bundle)"
        )
    rows = config.recipe.groups * config.recipe.group_size * config.recipe.epochs
    if after.groups * after.group_size * after.epochs > rows:
        raise UsageError(
            f"epochs = {after.epochs} over {after.groups} x {after.group_size} rollouts are more optimizer passes a step than the first recipe's "
            f"{rows:,}: a branch may not buy its gain. Lower groups or group_size with it (a bundle)"
        )


def _require_own_rewards(before: Recipe, after: Recipe, files: Set[str], config: LabConfig) -> None:
    """A reward that a file brings is code which runs outside the sandbox, so a new one lies in the harness, where the lab lets its agent write."""
    for name in after.reward.parts:
        if name in before.reward.parts or not is_own(name):
            continue
        path = name.rpartition(":")[0]
        may = any(fnmatchcase(path, pattern) for pattern in allowed(config))
        if not may or path not in files or not path.startswith(OWN_REWARDS):
            raise UsageError(
                f"reward.parts names {name!r}, and a function may only come from a file rewards/*.py of the harness, in a lab that has "
                f"'rewards/*.py' in `allowed`. Files there: {', '.join(sorted(f for f in files if f.startswith(OWN_REWARDS))) or 'none'}"
            )


def _require_one(change: Change, leaves: tuple[str, ...], written: Mapping[str, str | None]) -> None:
    total = len(leaves) + len(written) + bool(change.weights)
    if not total and not change.empty:
        raise UsageError("the change comes to nothing: the resolved recipe and the files stay as they are")
    if total <= 1 or change.bundle:
        return
    raise UsageError(
        f"{total} things change at once ({', '.join((*leaves, *written))}), so nobody could say which of them helped. Change one, or declare a "
        "bundle with the order in which it is taken apart"
    )


# Values


def _things(before: Recipe, after: Recipe) -> tuple[str, ...]:
    """Names of what differs between two recipes; a mapping of `_WHOLE` is one."""
    names = [change.field for change in changes(before, after)]
    return tuple(
        dict.fromkeys(next((w for w in _WHOLE if name == w or name.startswith(f"{w}.")), name) for name in names)
    )


def _set(data: dict[str, Any], name: str, value: Any) -> None:
    """Set one dotted name; None takes it out, back to its default."""
    whole = next((w for w in _WHOLE if name.startswith(f"{w}.")), None)
    path = [*whole.split("."), name.removeprefix(f"{whole}.")] if whole else name.split(".")
    node = data
    for part in path[:-1]:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{name!r}: {part!r} is a value, not a group of settings")
        node = child
    if value is None:
        node.pop(path[-1], None)
    else:
        node[path[-1]] = value


def _differs(name: str, text: str | None, known: Mapping[str, str]) -> bool:
    return (name in known) if text is None else known.get(name) != _sha(text)


def _copy(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in data.items()}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
