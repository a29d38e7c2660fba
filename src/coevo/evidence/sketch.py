"""Repetition and similarity of many texts at once: their words hashed, their n-grams counted by array operations.

A text's *sketch* is a few min-wise hashes of its set of 3-grams. Two texts agree in one of them with the probability of their sets'
Jaccard similarity (Broder 1997, "On the resemblance and containment of documents"), so the mean similarity of thousands of pairs is a
count of equal numbers, without a single pair being compared. What texts have in common they have in common under one hash function in all pairs at
once, which makes one function a poor judge; the functions therefore change with a salt (a row's step), within which alone texts are compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

SKETCHES = 8
MOST_WORDS = 1_000
"""Last words of a text that are looked at."""


def sketches(texts: Sequence[str], salts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(repetition of (texts,), sketches of (texts, SKETCHES)), float64. Repetition is NaN under 8 words, a sketch under 1 word. Sketches can be compared
    among texts of equal salt (uint64 of (texts,); none: all)."""
    words = [text[-20 * MOST_WORDS :].encode("utf-8", "surrogatepass").split()[-MOST_WORDS:] for text in texts]
    counts = np.array([len(found) for found in words], dtype=np.int64)
    repetition = np.full(len(texts), np.nan)
    sketch = np.full((len(texts), SKETCHES), np.nan)
    hashes = np.fromiter(
        (h for found in words for h in map(zlib.crc32, found)), dtype=np.uint64, count=int(counts.sum())
    )
    if len(hashes):
        enough = counts >= 8
        repetition[enough] = _repeated(hashes, counts)[enough]
        salts = np.zeros(len(texts), dtype=np.uint64) if salts is None else salts
        sketch[counts > 0] = _least(hashes, counts, salts)[counts > 0]
    return repetition, sketch


def _grams(hashes: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Mixed hashes of all n-grams that lie within one text, and the text each is of. A shorter text has one: all its words."""
    text = np.repeat(np.arange(len(counts)), counts)
    mixed = np.zeros(len(hashes), dtype=np.uint64)
    ends = np.cumsum(counts)
    last = np.repeat(ends, counts)
    place = np.arange(len(hashes))
    for offset in range(size):
        at = np.minimum(place + offset, last - 1)
        mixed = mixed * np.uint64(0x100000001B3) + hashes[at]
    whole = place + size <= last
    whole[(ends - counts)[counts > 0]] = True
    return _scrambled(mixed[whole]), text[whole]


def _scrambled(values: np.ndarray) -> np.ndarray:
    """A finaliser of 64-bit hashes (xor, shift, multiply): close inputs give far outputs."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def _repeated(hashes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    grams, text = _grams(hashes, counts, 4)
    order = np.lexsort((grams, text))
    grams, text = grams[order], text[order]
    new = np.ones(len(grams), dtype=bool)
    new[1:] = (grams[1:] != grams[:-1]) | (text[1:] != text[:-1])
    total = np.bincount(text, minlength=len(counts))
    distinct = np.bincount(text, weights=new, minlength=len(counts))
    return 1 - distinct / np.maximum(total, 1)


def _least(hashes: np.ndarray, counts: np.ndarray, salts: np.ndarray) -> np.ndarray:
    grams, text = _grams(hashes, counts, 3)
    out = np.full((len(counts), SKETCHES), np.nan)
    there, starts = np.unique(text, return_index=True)
    for k in range(SKETCHES):
        salt = _scrambled(salts * np.uint64(SKETCHES) + np.uint64(k + 1))
        keys = _scrambled(grams ^ salt[text])
        out[there, k] = (np.minimum.reduceat(keys, starts) >> np.uint64(12)).astype(np.float64)
    return out
