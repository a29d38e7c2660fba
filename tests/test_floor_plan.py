"""Imports point one way along the floor plan, and heavy packages stay out of import time."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "coevo"

GROUND = {"errors", "config", "streams", "stats", "programs"}
BELOW_EPISODES = GROUND | {"runs", "sandbox", "tasks", "evaluation", "models", "evolution"}
BELOW_LAB = BELOW_EPISODES | {
    *("pictures", "episodes", "trajectories", "engines", "training", "mini", "bench"),
    *("evidence", "diagnostics", "gate", "backtest", "skills"),
}
BELOW_CLI = BELOW_LAB | {"lab"}
MAY_KNOW: dict[str, set[str]] = {
    **dict.fromkeys(GROUND, GROUND),
    "runs": GROUND,
    "sandbox": GROUND,
    "tasks": GROUND | {"runs", "sandbox"},
    "evaluation": GROUND | {"runs", "sandbox", "tasks"},
    "models": GROUND | {"runs"},
    "evolution": GROUND | {"runs", "sandbox", "tasks", "evaluation", "models"},
    "pictures": GROUND | {"runs", "tasks"},
    "episodes": BELOW_EPISODES,
    "trajectories": BELOW_EPISODES | {"episodes"},
    "engines": GROUND | {"runs", "models"},
    "training": BELOW_EPISODES | {"episodes", "trajectories", "engines"},
    "mini": BELOW_EPISODES | {"episodes", "trajectories", "engines", "training"},
    "bench": BELOW_EPISODES | {"episodes", "trajectories", "engines", "training", "mini", "pictures"},
    "evidence": GROUND | {"runs"},
    "diagnostics": GROUND | {"runs", "evidence"},
    "gate": GROUND | {"runs", "evidence", "diagnostics"},
    "skills": GROUND | {"runs", "sandbox", "evidence", "diagnostics"},
    "backtest": BELOW_EPISODES | {"episodes", "trajectories", "engines", "training", "evidence", "diagnostics"},
    "lab": BELOW_LAB,
    "api": BELOW_CLI,
    "cli": BELOW_CLI | {"api"},
    "__main__": {"cli"},
}
STANDALONE = {"zygote", "codec", "walls", "runner"}
"""Files of the sandbox room that run as plain files: what they import by bare name is a sibling."""
HEAVY = {
    *("torch", "transformers", "matplotlib", "pyarrow", "ray", "gguf", "tokenizers", "safetensors", "peft", "trl"),
    *("datasets", "pandas", "accelerate", "tensorboard", "wandb", "trackio", "tinker", "verifiers"),
}


def room_of(path: Path) -> str:
    parts = path.relative_to(SRC).parts
    return parts[0].removesuffix(".py")


def imports(tree: ast.Module) -> list[tuple[int, str, bool]]:
    """(line, dotted module, at top level) of every import."""
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            names = [
                f"{node.module}.{alias.name}" if node.module == "coevo" else str(node.module) for alias in node.names
            ]
            found += [(node.lineno, name, id(node) in top) for name in names]
    return found


FILES = sorted(p for p in SRC.rglob("*.py") if "library" not in p.parts and p.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_KNOW, f"{room} is not on the floor plan"
    for line, module, top in imports(ast.parse(path.read_text())):
        head, _, rest = module.partition(".")
        if head == "coevo" and rest:
            other = rest.split(".")[0]
            assert other == room or other in MAY_KNOW[room] or other == "__version__", (
                f"{path.name}:{line}: {room} may not import coevo.{other}"
            )
        assert not (top and head in HEAVY), f"{path.name}:{line}: {head} is imported at module level"


@pytest.mark.parametrize("module", ["coevo", "coevo.cli.main"])
def test_importing_costs_no_heavy_package(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & (HEAVY | {"scipy", "httpx"})
