"""From recorded rollouts back to what rewards see, as far as the evidence carries it.

What schema 1 carries of a `Sample`: parent_fitness, fitness, correctness, efficiency, contract_ok, program_hash, tokens, whether it was cut off, and (where the source can
be read again) the text. What it does not: the parent's correctness, efficiency and hash, the attempts shown, the archive, the program's source, single tests. A part of a
reward that needs one of those is not recomputed (`lacks`); no value is ever guessed.

Whether a reply without a program handed its parent back is found out from, in this order: `copy`; `text.copies_parent`; a recorded part that pays copies and nothing else (`format`,
`absolute`, `metaevolve`, `difference`); a truth above 0, which a reply without a program never has. Where none of them says, it is unknown.

An episode of several turns is known by its best turn; what all its turns together would earn cannot be known from it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from coevo.episodes.types import Sample
from coevo.errors import ConfigError
from coevo.evidence.types import Frame, Words
from coevo.evolution.types import Rejection
from coevo.training.own import is_own
from coevo.training.settings import RewardConfig

CARRIED = frozenset(
    {
        *("parent_fitness", "fitness", "correctness", "efficiency", "contract_ok", "rejection", "program_hash"),
        *("tokens", "max_tokens", "truncated", "turn"),
    }
)
"""Fields of a `Sample` that evidence carries; `text` too, where the source can be read again."""

_FITNESS = ("metaevolve", "difference", "absolute", "lazy", "search_gain")
_WANTS_PARENT = ("metaevolve", "difference", "lazy", "search_gain")
_COPY_MATTERS = ("metaevolve", "difference", "absolute", "efficiency_only_if_correct", "format")
"""Parts that pay a copy otherwise than a reply that holds nothing."""


@dataclass(frozen=True)
class Rebuilt:
    """What rewards would see of every row; all arrays are (rows,)."""

    frame: Frame
    measured: np.ndarray
    program: np.ndarray
    """bool: the reply held a program."""
    copied: np.ndarray
    """float: 1 handed its parent back, 0 not, NaN unknown."""
    max_tokens: int
    """0 where unknown."""
    notes: tuple[str, ...]

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        names = ("parent_fitness", "fitness", "correctness", "efficiency", "tokens")
        return {name: self.frame.numbers(name) for name in names}

    @cached_property
    def _cut(self) -> np.ndarray:
        return self.frame.is_word("stop_reason", "length")

    @cached_property
    def _hashes(self) -> Words:
        return self.frame.words("program_hash")

    def sample(self, row: int, text: str = "") -> Sample:
        """Of one row. What is missing is None (a missing parent fitness: 0; `lacks` says for which parts that matters)."""
        values = {name: None if np.isnan(column[row]) else float(column[row]) for name, column in self._columns.items()}
        copied, program = self.copied[row] == 1, bool(self.program[row])
        codes, names = self._hashes
        return Sample(
            parent_fitness=values["parent_fitness"] or 0.0,
            fitness=values["fitness"],
            correctness=values["correctness"],
            efficiency=values["efficiency"],
            contract_ok=program,
            rejection="" if program else Rejection.UNCHANGED.value if copied else Rejection.NO_CODE.value,
            program_hash=names[codes[row]] if codes[row] >= 0 else "",
            text=text,
            tokens=int(values["tokens"] or 0),
            max_tokens=self.max_tokens,
            truncated=bool(self._cut[row]),
        )


def rebuild(frame: Frame, *, max_tokens: int | None = None) -> Rebuilt:
    """`max_tokens`: of one reply, as the run's recipe had it; without, it is taken from rollouts that ran into it."""
    fitness, contract = frame.numbers("fitness"), frame.numbers("contract_ok")
    program = np.where(np.isnan(contract), np.isfinite(fitness), contract > 0)
    notes = []
    cut = frame.is_word("stop_reason", "length")
    limit = int(max_tokens or 0)
    if not limit and cut.any():
        tokens, turns = frame.numbers("tokens")[cut], np.nan_to_num(frame.numbers("turns")[cut], nan=1.0)
        single = tokens[(turns <= 1) & np.isfinite(tokens)]
        limit = int(single.max()) if len(single) else 0
        if limit:
            notes.append(f"max_tokens is taken to be {limit}, where cut replies end")
    several = int((frame.numbers("turns") > 1).sum())
    if several:
        notes.append(
            f"{several} rollouts have several turns: they are scored by their best turn, as if it had been the only one"
        )
    return Rebuilt(frame, frame.measured, program, copies(frame, program), limit, tuple(notes))


def copies(frame: Frame, program: np.ndarray | None = None) -> np.ndarray:
    """1 where a reply handed its parent back, 0 where not, NaN where the evidence does not say; float64 of (rows,)."""
    if program is None:
        contract = frame.numbers("contract_ok")
        program = np.where(np.isnan(contract), np.isfinite(frame.numbers("fitness")), contract > 0)
    found = np.where(program, 0.0, np.nan)
    for says in _evidence_of_copies(frame):
        found = np.where(np.isnan(found), says, found)
    return np.where(frame.measured, found, np.nan)


def lacks(part: str, config: RewardConfig, rebuilt: Rebuilt) -> np.ndarray:
    """object of (rows,): why a part cannot be recomputed for a row; "" where it can."""
    frame, why = rebuilt.frame, np.full(rebuilt.frame.rows, "", dtype=object)

    def needs(missing: np.ndarray, reason: str) -> None:
        why[missing & (why == "")] = f"{part}: {reason}"

    if part == "novelty":
        needs(np.ones(frame.rows, dtype=bool), "it compares sources, which evidence does not hold")
    elif is_own(part) and (fault := own_lacks(part)):
        needs(np.ones(frame.rows, dtype=bool), fault)
    if part in _FITNESS:
        needs(rebuilt.program & np.isnan(frame.numbers("fitness")), "no fitness")
    if part in _WANTS_PARENT or is_own(part):
        needs(np.isnan(frame.numbers("parent_fitness")), "no parent_fitness")
    if part == "absolute":
        needs((rebuilt.copied == 1) & np.isnan(frame.numbers("parent_fitness")), "no parent_fitness")
    if part == "efficiency_only_if_correct":
        needs(rebuilt.copied == 1, "the parent's efficiency is not in the evidence")
        needs(rebuilt.program & np.isnan(frame.numbers("correctness")), "no correctness")
    if part == "length":
        needs(np.isnan(frame.numbers("tokens")), "no tokens")
        if not rebuilt.max_tokens:
            needs(np.ones(frame.rows, dtype=bool), "max_tokens is not known; give it")
    indifferent = part == "metaevolve" and config.no_program == 0
    if (part in _COPY_MATTERS and not indifferent) or is_own(part):
        needs(np.isnan(rebuilt.copied), "whether this reply without a program is a copy of its parent is not known")
    return why


def own_lacks(name: str) -> str:
    """What a function of the user's own looks at that evidence does not carry; empty for nothing. Read off its file, which is not executed.

    Any attribute that is named like a field of `Sample` counts, and `getattr` or `vars` anywhere counts as everything.
    """
    path = Path(name.rpartition(":")[0])
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as e:
        raise ConfigError(f"cannot read reward file {path}: {e}") from None
    names = {f.name for f in fields(Sample)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & names
    used |= {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in ("getattr", "vars", "asdict")
    }
    missing = sorted(used - CARRIED - {"text"})
    return f"it looks at {', '.join(missing)}, which evidence does not carry" if missing else ""


def _evidence_of_copies(frame: Frame) -> list[np.ndarray]:
    """What may tell a copy from a reply that holds nothing, best first; each (rows,) of 1, 0 or NaN, read for replies without a program only."""
    parent, truth = frame.numbers("parent_fitness"), frame.numbers("truth")
    paid = {name: frame.numbers(f"parts.{name}") for name in ("format", "absolute", "metaevolve", "difference")}
    nothing = np.full(frame.rows, np.nan)
    told_by_parent = np.isfinite(parent) & (parent != 0)
    return [
        frame.numbers("copy"),
        frame.numbers("text.copies_parent"),
        np.where(np.isnan(paid["format"]), nothing, paid["format"] != 0),
        np.where(np.isnan(paid["absolute"]) | ~told_by_parent, nothing, paid["absolute"] != 0),
        np.where(np.isnan(paid["metaevolve"]), nothing, np.where(paid["metaevolve"] < 0, 0.0, nothing)),
        np.where(np.isnan(paid["difference"]) | ~told_by_parent, nothing, paid["difference"] == 0),
        np.where(truth > 0, 1.0, nothing),
        np.where(frame.is_word("kind", "toy") & (truth == 0), 0.0, nothing),
    ]


def texts(frame: Frame, rows: np.ndarray) -> Mapping[int, str]:
    """Responses by row, read again from the source. Raises `UsageError` where that cannot be."""
    found = frame.excerpt([frame.number_of(int(row)) for row in rows])
    return {int(row): str(one.get("response") or "") for row, one in zip(rows, found, strict=True)}
