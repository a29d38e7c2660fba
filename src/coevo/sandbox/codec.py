"""Plain data to bytes and back, exactly: what passes between the judge and a candidate.

The code is `inside/codec.py`, a file on its own that the sandboxed process reads, too.
"""

from __future__ import annotations

from coevo.sandbox.inside.codec import MAX_BYTES, MAX_DEPTH, CodecError, decode, encode

__all__ = ["MAX_BYTES", "MAX_DEPTH", "CodecError", "decode", "encode"]
