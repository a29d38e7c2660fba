"""Files of checkpoints that are cut short, changed or gone: the one before serves and it is told, or an error names the file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from safetensors.numpy import load_file

from coevo.errors import CoevoError, ModelError, StoreError
from coevo.models import open_model
from coevo.runs import Run
from coevo.training import checkpoints, session
from tests.training.recipes import recipe


@pytest.fixture(scope="module")
def made(stage: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("damage") / "run"
    session.train(recipe(stage, steps=4, checkpoint_every=2), out)
    return out


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


FILES = ("model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json", "engine.json", "coevo.json")


@pytest.mark.parametrize("name", FILES)
def test_the_checkpoint_before_a_damaged_one_serves(made: Path, name: str, tmp_path: Path) -> None:
    whole = load_file(made / "checkpoints" / "step-000004" / "model.safetensors")
    run = shutil.copytree(made, tmp_path / "run")
    file = run / "checkpoints" / "step-000004" / name
    (cut if name == "optimizer.safetensors" else flip)(file)
    with session.resume(run) as opened:
        assert opened.parts.restored == 2
        assert any(
            "step-000004 cannot be read and is passed over" in note and name in note for note in opened.parts.notes
        )
        opened.go()
    again = load_file(file.parent / "model.safetensors")  # Saved again, from the repeated updates.
    assert all((whole[key] == again[key]).all() for key in whole)
    assert checkpoints.pick(run).step == 4


def test_every_file_that_is_loaded_is_vouched_for(made: Path) -> None:
    folder = made / "checkpoints" / "step-000004"
    left = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    from coevo.engines.state import read

    assert left - set(read(folder, with_optimizer=True).files) == {"engine.json", "coevo.json", "README.md"}


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "engine.json"])
def test_who_names_a_damaged_checkpoint_is_told_the_file(made: Path, name: str, tmp_path: Path, stage: Any) -> None:
    run = shutil.copytree(made, tmp_path / "run")
    folder = run / "checkpoints" / "step-000004"
    flip(folder / name)
    with pytest.raises(ModelError, match=rf"{name} .*SHA-256 differs"):
        open_model(f"local:{folder}")
    with pytest.raises(CoevoError, match=rf"{name} .*SHA-256 differs"):
        session.train(recipe(stage, base=f"{run}@4"), tmp_path / "other")
    with (
        pytest.raises(StoreError, match=rf"{name} .*SHA-256 differs"),
        session.branch(run, tmp_path / "branch", checkpoint="4", sets=["steps=6"]),
    ):
        pass


@pytest.mark.parametrize("name", ["optimizer.pt", "trainer_state.json", "scheduler.pt", "coevo.json"])
def test_trls_checkpoints_are_held_against_their_digests(stage: Any, tmp_path: Path, name: str) -> None:
    pytest.importorskip("trl", reason="trainer trl needs trl (extra trl)")
    run = tmp_path / "run"
    session.train(recipe(stage, trainer="trl", steps=2, checkpoint_every=1), run)
    cut(run / "trl" / "checkpoint-2" / name)
    with Run.open(run, write=True) as opened:  # As if it had been stopped before its end.
        assert opened.config["recipe"]["steps"] == 2
    with session.resume(run) as opened:
        assert any("checkpoint-2 is passed over" in note and name in note for note in opened.parts.notes)
        assert opened.parts.restored == 1
        assert opened.go().steps == 2
