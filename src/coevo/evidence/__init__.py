"""Rollouts of any trainer, as columns. `open_evidence` reads files, folders and runs; `frame_of` takes rows in memory."""

from coevo.evidence.opening import open_evidence
from coevo.evidence.rows import frame_of
from coevo.evidence.types import Frame, Words

__all__ = ["Frame", "Words", "frame_of", "open_evidence"]
