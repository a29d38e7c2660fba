"""Diagnoses of a source of evidence: a run, a file, a folder; its branches apart or together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.rules import RULES
from coevo.diagnostics.types import Diagnosis
from coevo.errors import UsageError, pick
from coevo.evidence.opening import open_evidence
from coevo.evidence.types import Frame, Words


class Diagnosed(NamedTuple):
    """A diagnosis beside the rows it is of."""

    name: str
    """Of the branch; "" where there is one, or all are taken together."""
    frame: Frame
    diagnosis: Diagnosis


def diagnose_source(
    source: str | Path,
    baseline: str | Path | None = None,
    *,
    branch: str | None = None,
    baseline_branch: str | None = None,
    together: bool = False,
    split: str | None = None,
    only: Sequence[str] = (),
    format: str = "auto",
) -> list[Diagnosed]:
    """Reads and diagnoses. Several branches (or runs) in one source are diagnosed apart, in order of appearance, unless one is named or
    `together` is asked for. `only`: ids of the diagnostics to ask; rules then see no others.

    Raises `UsageError` for a source that cannot be read, and names of branches, splits or diagnostics that there are not.
    """
    chosen = {id: pick(id, shipped(), kind="diagnostic") for id in only} if only else None
    frame = open_evidence(source, format=format)
    before = None if baseline is None else open_evidence(baseline, format=format)
    if before is not None and baseline_branch is not None:
        before = _branch(before, baseline_branch)
    if split is not None and not frame.is_word("split", split).any():
        known = ", ".join(sorted(set(frame.words("split").values))) or "none"
        raise UsageError(f"no rows of split {split!r} in {source}; its splits: {known}")
    if branch is not None:
        parts = {branch: _branch(frame, branch)}
    else:
        masks = {} if together else branches_of(frame)
        parts = {name: frame.where(mask) for name, mask in masks.items()} if len(masks) > 1 else {"": frame}
    return [
        Diagnosed(name, part, diagnose(part, before, diagnostics=chosen, rules=RULES, split=split))
        for name, part in parts.items()
    ]


def branches_of(frame: Frame) -> Mapping[str, np.ndarray]:
    """Name -> bool of (rows,), in order of appearance: the branch, before it the run where there are several runs."""
    runs, branches = frame.words("run"), frame.words("branch")
    several = len(np.unique(runs.codes)) > 1
    key = (runs.codes + 1) * (len(branches.values) + 1) + branches.codes + 1
    _, first = np.unique(key, return_index=True)
    found = {}
    for row in sorted(first.tolist()):
        names = [_name(column, row) for column in ((runs, branches) if several else (branches,))]
        found["/".join(names)] = key == key[row]
    return found


def _name(column: Words, row: int) -> str:
    code = int(column.codes[row])
    return column.values[code] if code >= 0 else "unnamed"


def _branch(frame: Frame, name: str) -> Frame:
    return frame.where(pick(name, branches_of(frame), kind="branch"))
