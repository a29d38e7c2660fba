"""Looking at a checkpoint that somebody else's trainer left: a Hugging Face folder, whole, and with finite weights. Reads no pickles."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevo.errors import UsageError

WEIGHTS, ADAPTER, INDEX = "model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Of the types whose values are looked at."""
_EXPONENT = {"F16": 0x7C00, "BF16": 0x7F80}
"""All ones: infinity or NaN."""
_PIECE = 1 << 24
_MAX_HEADER = 1 << 27


def check_checkpoint(folder: Path) -> dict[str, Any]:
    """`{"files": names, "parameters": number}` of a Hugging Face folder (or a peft adapter) in safetensors with a tokenizer.

    Raises `UsageError` that names the file and what is wrong: missing, truncated, not finite, pickled.
    """
    if not folder.is_dir():
        raise UsageError(
            f"no checkpoint at {folder}: the command must leave a folder there, as save_pretrained makes it"
        )
    files = _weight_files(folder)
    config = "adapter_config.json" if files == [ADAPTER] else "config.json"
    _object(folder / config)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise UsageError(f"checkpoint {folder} has no tokenizer ({', '.join(_TOKENIZERS)}); save it there, too")
    return {"files": files, "parameters": sum(_parameters(folder / name) for name in files)}


def _weight_files(folder: Path) -> list[str]:
    if (folder / INDEX).is_file():
        shards = _object(folder / INDEX).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise UsageError(f"{folder / INDEX} has no weight_map")
        names = sorted({str(name) for name in shards.values()})
        if away := [name for name in names if Path(name).name != name or not (folder / name).is_file()]:
            raise UsageError(f"checkpoint {folder} lacks {', '.join(away[:5])}, which {INDEX} names")
        return names
    for name in (WEIGHTS, ADAPTER):
        if (folder / name).is_file():
            return [name]
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    hint = f"; {pickled[0]} is a pickle, which is not read" if pickled else ""
    raise UsageError(f"checkpoint {folder} has no {WEIGHTS}{hint}. Use save_pretrained with safe_serialization")


def _parameters(file: Path) -> int:
    """Number of values of a safetensors file that is whole and whose floats are all finite."""
    with file.open("rb") as opened:
        size = file.stat().st_size
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER):
            raise UsageError(f"{file} is truncated or no safetensors file")
        try:
            header = json.loads(opened.read(length))
            tensors = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
            end = max((entry["data_offsets"][1] for _, entry in tensors), default=0)
            counts = [math.prod(entry["shape"]) for _, entry in tensors]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as e:
            raise UsageError(f"{file} has a damaged header ({type(e).__name__}: {e})") from None
    if size != 8 + length + end:
        raise UsageError(f"{file} is truncated: {size:,} bytes where its header says {8 + length + end:,}")
    for name, entry in tensors:
        _require_finite(file, 8 + length, name, entry)
    return sum(counts)


def _require_finite(file: Path, begin: int, name: str, entry: Mapping[str, Any]) -> None:
    import numpy as np

    kind, (first, last) = entry["dtype"], entry["data_offsets"]
    if kind not in _BYTES or last <= first:
        return
    form = {"F64": "<f8", "F32": "<f4"}.get(kind, "<u2")
    values = np.memmap(file, dtype=form, mode="r", offset=begin + first, shape=((last - first) // _BYTES[kind],))
    for at in range(0, len(values), _PIECE):
        piece = values[at : at + _PIECE]
        bad = (piece & _EXPONENT[kind]) == _EXPONENT[kind] if kind in _EXPONENT else ~np.isfinite(piece)
        if bad.any():
            raise UsageError(f"{file}: tensor {name!r} holds values that are not finite; the training diverged")


def _object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read {file}: {getattr(e, 'strerror', None) or e}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{file} must hold a JSON object")
    return found
