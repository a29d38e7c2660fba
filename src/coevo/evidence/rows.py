"""From evidence rows in memory to a frame. Readers of files are beside this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from coevo.evidence.columns import Builder, joined
from coevo.evidence.readers.own import LAYOUT
from coevo.evidence.types import Frame


def frame_of(rows: Iterable[Mapping[str, Any]], *, source: str = "") -> Frame:
    """The frame of rows of schema 1: any column may be left out, unknown ones are kept where they are numbers or words, and what is read off
    prompts and responses becomes columns `text.NAME` (`coevo.evidence.features`), all of them for every row; those a row brings are kept."""
    kept = [dict(row) for row in rows]
    builder = Builder(LAYOUT)
    if kept:
        places = np.arange(len(kept), dtype=np.int64)
        builder.add_records(kept, np.stack([places, np.zeros_like(places)], axis=1))
    numbers, words, notes = joined([builder.done()])
    return Frame(
        rows=len(kept),
        numbers_by_name=numbers,
        words_by_name=words,
        source=source,
        notes=tuple(notes),
        fetch=lambda wanted: [kept[i] for i in wanted],
    )
