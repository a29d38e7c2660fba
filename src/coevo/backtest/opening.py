"""From what a person names to what a backtest takes: sources, outcomes, diagnostics, settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coevo.backtest.candidates import screen
from coevo.backtest.proposed import Plain, diagnostic_of
from coevo.backtest.rescoring import UNTOLD, Trained
from coevo.backtest.sandboxed import Bench
from coevo.backtest.terms import Term
from coevo.backtest.types import Known, Past
from coevo.config import parse, with_sets
from coevo.diagnostics.diagnose import training_split
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.rules import RULES
from coevo.diagnostics.types import Diagnostic, Levels, Rule
from coevo.errors import CoevoError, ConfigError, UsageError, pick
from coevo.evidence import open_evidence
from coevo.evidence.types import Frame
from coevo.runs import Run
from coevo.training.settings import AdvantageConfig, FilterConfig, Recipe, RewardConfig

PROPOSED = "proposed"
"""Id of a diagnostic that was given as a term or a file."""


def open_rollouts(source: str | Path, *, split: str | None = None) -> Frame:
    """What training saw: split `train` where some rows are of it, else all; or the split named. Raises `UsageError` where nothing is left."""
    frame = open_evidence(source)
    name = training_split(frame) if split is None else split
    found = frame if not name else frame.split(name)
    if not found.rows:
        splits = ", ".join(frame.words("split").values) or "none named"
        raise UsageError(f"{source} has no rollouts of split {name!r}; its splits: {splits}")
    return found


def trained_of(source: str | Path) -> Trained:
    """What the rollouts of a run were made under; nothing is known of a file, or of a run whose recipe cannot be read."""
    path = Path(source)
    if not (path / "run.db").is_file():
        return UNTOLD
    try:
        with Run.open(path, write=False) as run:
            recipe = run.config.get("recipe")
        return Trained.of(parse(Recipe, recipe, where=str(path))) if isinstance(recipe, Mapping) else UNTOLD
    except CoevoError:
        return UNTOLD


def past_of(text: str) -> Past:
    """A branch from OUTCOME=SOURCE: `good=runs/a`, `bad=rollouts.jsonl`. Raises `UsageError`."""
    outcome, sep, source = text.partition("=")
    if not sep or outcome not in list(Known) or not source:
        raise UsageError(f"--branch takes good=SOURCE or bad=SOURCE (or unknown=SOURCE), not {text!r}")
    return Past(source, open_evidence(source), Known(outcome))


def reward_from(sets: Sequence[str], trained: Trained) -> RewardConfig:
    """The recorded reward with NAME=VALUE changed; a list of parts takes the place of the recorded one."""
    base = {} if trained.reward is None else trained.reward.model_dump(mode="json")
    return parse(RewardConfig, with_sets(base, sets), where="--reward")


def advantage_from(sets: Sequence[str], trained: Trained) -> AdvantageConfig:
    base = {} if trained.advantage is None else trained.advantage.model_dump(mode="json")
    return parse(AdvantageConfig, with_sets(base, _named(sets)), where="--advantage")


def filter_from(sets: Sequence[str], trained: Trained) -> FilterConfig:
    base = {} if trained.filter is None else trained.filter.model_dump(mode="json")
    return parse(FilterConfig, with_sets(base, _named(sets)), where="--filter")


def rule_of(id: str) -> Rule:
    return pick(id, {rule.id: rule for rule in RULES}, kind="rule")


def diagnostic_from(
    text: str, branches: Sequence[Past], *, levels: Levels | None, bench: Bench, seed: int = 0
) -> tuple[Diagnostic, tuple[tuple[float, ...], ...]]:
    """A shipped diagnostic by its id, or one made of a term or of a file PATH.py that defines `measure(columns)`; and the `family` that `admit` takes.

    Without `levels`, those of a term are fitted to the branches, either way up, which the family pays for; a file needs them. Raises `UsageError`.
    """
    known = shipped()
    if text in known:
        found = known[text]
        return (found if levels is None else replace(found, levels=levels)), ()
    if text.endswith(".py"):
        if levels is None:
            raise UsageError(f"{text}: say from where on its value is worth a word: --levels WARN,CRITICAL")
        return diagnostic_of(_plain(text, levels, source_code=_read(text)), bench=bench), ()
    term = _term(text, known)
    family: tuple[tuple[float, ...], ...] = ()
    if levels is None:
        screened = screen(branches, [term], seed=seed)
        levels = screened.best[0].levels if screened.best else Levels(math.inf, math.inf)
        family = screened.family
    if not all(map(math.isfinite, levels)):
        levels = Levels(0.0, 0.0)
    return diagnostic_of(_plain(str(term), levels, term=text), bench=bench), family


def levels_from(text: str | None) -> Levels | None:
    """WARN,CRITICAL; the critical one below the other: low is bad."""
    if text is None:
        return None
    try:
        warn, critical = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--levels takes two numbers, WARN,CRITICAL, not {text!r}") from None
    if not (math.isfinite(warn) and math.isfinite(critical)):
        raise UsageError(f"--levels takes finite numbers, not {text!r}")
    return Levels(warn, critical)


def _term(text: str, known: Mapping[str, Diagnostic]) -> Term:
    """A word that is neither an id nor a term was meant as an id."""
    try:
        return Term.parse(text)
    except UsageError:
        if text.replace("-", "").replace("_", "").isalnum():
            pick(text, known, kind="diagnostic")
        raise


def _plain(title: str, levels: Levels, *, term: str = "", source_code: str = "") -> Plain:
    return Plain(PROPOSED, title, term, "", levels.warn, levels.critical, source_code, term)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"cannot read {path}: {e}") from None


def _named(sets: Sequence[str]) -> list[str]:
    """`snr` is short for `name=snr`."""
    return [one if "=" in one else f"name={one}" for one in sets]
