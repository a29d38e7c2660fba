"""Runs inside the sandbox, beside the candidate: OpenEvolve's evaluator as its author wrote it.

Imports nothing of coevo. Returns plain data; what it says is the candidate's word as much as the evaluator's.
"""

import asyncio
import dataclasses
import importlib.util
import inspect
import os
import sys
import tempfile
import types

MAX_ARTIFACT = 4000


@dataclasses.dataclass
class EvaluationResult:
    """Stands in for `openevolve.evaluation_result.EvaluationResult`, which evaluators may import."""

    metrics: dict
    artifacts: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def from_dict(cls, metrics):
        return cls(metrics=metrics)

    def to_dict(self):
        return self.metrics

    def has_artifacts(self):
        return bool(self.artifacts)


def probe(files):
    """Import the evaluator without any candidate: {} or {"missing": module} or {"error": text}."""
    try:
        module = _evaluator(_unpack(files, {}))
    except ModuleNotFoundError as e:
        return {"missing": str(e.name)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
    return (
        {}
        if callable(getattr(module, "evaluate", None))
        else {"error": "it defines no function evaluate(program_path)"}
    )


def run(files, candidate, main):
    """Evaluate the candidate: {"metrics": {name: number}, "artifacts": {name: text}}."""
    root = _unpack(files, candidate)
    result = _evaluator(root).evaluate(os.path.join(root, "candidate", main))
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    metrics = getattr(result, "metrics", result)
    artifacts = getattr(result, "artifacts", None) or {}
    if not isinstance(metrics, dict):
        raise TypeError(f"evaluate() returned a {type(result).__name__}; a dict of metrics is expected")
    return {
        "metrics": {str(k): _number(v) for k, v in metrics.items() if _is_number(v)},
        "artifacts": {str(k)[:100]: _text(v) for k, v in list(artifacts.items())[:20]},
    }


def _unpack(files, candidate):
    root = tempfile.mkdtemp()
    for folder, contents in (("", files), ("candidate", candidate)):
        for name, data in contents.items():
            path = os.path.join(root, folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(data)
    os.chdir(root)
    sys.path.insert(0, root)
    package = types.ModuleType("openevolve")
    package.__path__ = []
    inner = types.ModuleType("openevolve.evaluation_result")
    vars(inner)["EvaluationResult"] = vars(package)["EvaluationResult"] = EvaluationResult
    vars(package)["evaluation_result"] = inner
    sys.modules["openevolve"], sys.modules["openevolve.evaluation_result"] = package, inner
    return root


def _evaluator(root):
    spec = importlib.util.spec_from_file_location("evaluator", os.path.join(root, "evaluator.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    return module


async def _awaited(result):
    return await result


def _is_number(value):
    return not isinstance(value, (bool, str)) and hasattr(value, "__float__") and getattr(value, "shape", ()) == ()


def _number(value):
    return float(value)


def _text(value):
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text[:MAX_ARTIFACT]
