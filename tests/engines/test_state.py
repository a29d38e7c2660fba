"""States: bit for bit what was saved, killed at any moment, damaged in any way."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coevo.engines.settings import LoraConfig
from coevo.engines.types import LossConfig, OptimConfig
from coevo.errors import ConfigError, StoreError
from tests.engines.conftest import prompts_of, rows_of, weights_of

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")
ROOT = Path(__file__).parents[2]
LORA = LoraConfig(rank=4, alpha=8)


def train(engine, steps: int, *, lr: float = 1e-3) -> list:
    """Steps on policy with KL and entropy; what was sampled and the gradient's norms."""
    found = []
    for _ in range(steps):
        rows = rows_of(engine, seed=17 * engine.version, new=8)
        stats = engine.forward_backward(rows, LossConfig(kl=0.05, entropy=0.01))
        found.append(
            ([r.token_ids for r in rows], stats.loss, engine.optim_step(lr, OptimConfig(weight_decay=0.01)).grad_norm)
        )
    return found


def fingerprint(engine) -> str:
    """Of all weights, the optimizer's state and some samples."""
    text = hashlib.sha256()
    for tensors in (weights_of(engine), engine._optimizer.state()):
        for name in sorted(tensors):
            text.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    text.update(repr(engine.sample(prompts_of(engine, seed=99))).encode())
    return f"{engine.version} {text.hexdigest()}"


@pytest.fixture(params=[None, LORA], ids=["all weights", "lora"])
def settings(request):
    if request.param:
        pytest.importorskip("peft", reason="peft is not installed (extra: train)")
    return {"lora": request.param}


def test_going_on_is_bit_for_bit_the_same(opened, settings):
    """Train 3, save, train 3; load, train 3: in place, in a new engine, and by path in an engine of another folder."""
    engine = opened(**settings)
    train(engine, 3)
    where = engine.save("three")
    expected, end = train(engine, 3), fingerprint(engine)
    for other in (
        engine,
        opened(seed=5, **settings),
        opened(folder=Path(where).parents[1] / "other", seed=5, **settings),
    ):
        other.load("three" if other is not engine and other.folder == engine.folder else where, with_optimizer=True)
        assert other.version == 3
        assert train(other, 3) == expected and fingerprint(other) == end


def test_a_fresh_process_goes_on_alike(opened, base, tmp_path):
    engine = opened()
    train(engine, 2)
    where = engine.save("two")
    train(engine, 2)
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import torch; torch.set_num_threads(1)
from pathlib import Path
from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig
from tests.engines.test_state import train, fingerprint
engine = open_engine({str(base)!r}, EngineConfig(device="cpu"), folder=Path({str(tmp_path)!r}) / "states")
engine.load({where!r}, with_optimizer=True)
train(engine, 2)
print(fingerprint(engine))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split("\n")[-2] == fingerprint(engine)


def test_the_learning_rate_of_the_step_acts_at_once(opened):
    """After a load the next step is the size its own rate says, not that of the state."""
    engine = opened()
    train(engine, 2, lr=1e-3)
    engine.save("s")
    sizes = []
    for lr in (1e-3, 1e-4, 0.0):
        engine.load("s", with_optimizer=True)
        engine.forward_backward(rows_of(engine), LossConfig())
        step = engine.optim_step(lr, OptimConfig())
        sizes.append(step.update_ratio)
        assert step.lr == lr
    assert sizes[0] == pytest.approx(10 * sizes[1], rel=1e-3) and sizes[2] == 0


def test_without_the_optimizer_adam_begins_anew(opened):
    engine = opened()
    train(engine, 2)
    engine.save("bare", optimizer=False)
    with pytest.raises(StoreError, match="saved without its optimizer"):
        engine.load("bare", with_optimizer=True)
    weights = weights_of(engine)
    engine.load("bare", with_optimizer=False)
    assert engine.version == 2 and not engine._optimizer.state()
    assert all(torch.equal(weights[k], v) for k, v in weights_of(engine).items())


def test_a_state_is_a_model_that_others_load(opened, settings, tmp_path):
    """As `local:CHECKPOINT`, as a base, and by transformers; of an adapter too, merged."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    engine = opened(**settings)
    train(engine, 3)
    where = Path(engine.save("s"))
    rows = rows_of(engine)
    ask = {"prompt_tokens": [r.prompt_tokens for r in rows]}
    ids = [r.token_ids for r in rows]
    mine = engine.logprobs(ids, **ask)
    assert (
        max(
            abs(a - b)
            for x, y in zip(mine, engine.logprobs(ids, of="base", **ask), strict=True)
            for a, b in zip(x, y, strict=True)
        )
    ) > 1e-3
    again = opened(at=where, folder=tmp_path / "again")
    for other in (again.logprobs(ids, **ask), engine.logprobs(ids, of="s", **ask)):
        for a, b in zip(mine, other, strict=True):
            assert a == pytest.approx(b, abs=1e-4)
    model = AutoModelForCausalLM.from_pretrained(where).eval()
    with torch.no_grad():
        logits = model(torch.tensor([rows[0].token_ids])).logits[0]
    logp = torch.log_softmax(logits, -1)
    p = rows[0].prompt_tokens
    plain = [logp[p - 1 + j, t].item() for j, t in enumerate(rows[0].token_ids[p:])]
    assert plain == pytest.approx(mine[0], abs=1e-4)
    assert AutoTokenizer.from_pretrained(where).chat_template
    record = json.loads((where / "engine.json").read_text())
    assert record["version"] == 3 and record["settings"]["lr"] == 1e-3 and "model.safetensors" in record["files"]


def test_states_do_not_mix(opened, settings, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed (extra: train)")
    engine, adapter = opened(), opened(folder=tmp_path / "l", lora=LORA)
    train(adapter, 1)
    where = adapter.save("a")
    with pytest.raises(StoreError, match="optimizer of an adapter"):
        engine.load(where, with_optimizer=True)
    engine.load(where, with_optimizer=False)  # merged: plain weights
    assert engine.version == 1
    full = engine.save("f")
    with pytest.raises(StoreError, match="all weights trained"):
        adapter.load(full, with_optimizer=True)
    with pytest.raises(StoreError, match="an adapter with"):
        opened(folder=tmp_path / "m", lora=LoraConfig(rank=2)).load(where, with_optimizer=True)
    with pytest.raises(StoreError, match="other weights than those of"):
        opened(folder=tmp_path / "n", at=Path(full), lora=LORA).load(where, with_optimizer=True)


def test_an_adapter_leaves_the_weights_alone(opened):
    pytest.importorskip("peft", reason="peft is not installed (extra: train)")
    plain, engine = opened(), opened(lora=LORA)
    prompts = prompts_of(engine)
    assert [s.token_ids for s in engine.sample(prompts)] == [s.token_ids for s in plain.sample(prompts)]
    before = weights_of(engine)
    train(engine, 2)
    engine.save("s")
    after = weights_of(engine)
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    assert changed and all(".lora_" in name for name in changed)
    assert int(engine.capabilities.details["trained"].replace(",", "")) < 0.2 * sum(t.numel() for t in before.values())


def test_dropout_of_adapters_acts_in_training_only(opened):
    pytest.importorskip("peft", reason="peft is not installed (extra: train)")
    engines = [opened(lora=LoraConfig(rank=4, dropout=0.5), seed=s) for s in (1, 1)]
    for engine in engines:
        train(engine, 2)
    rows = rows_of(engines[0])
    assert engines[0].sample(prompts_of(engines[0])) == engines[1].sample(prompts_of(engines[1]))  # seeded
    ids, ask = [r.token_ids for r in rows], {"prompt_tokens": [r.prompt_tokens for r in rows]}
    assert engines[0].logprobs(ids, **ask) == engines[0].logprobs(ids, **ask)
    assert engines[0].forward_backward(rows, LossConfig()).logprob_gap_max > 1e-4


@pytest.mark.parametrize("file", ["optimizer.safetensors", "model.safetensors", "config.json", "engine.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_damage_is_named_and_nothing_begins_fresh(opened, file, damage):
    engine = opened()
    train(engine, 1)
    path = Path(engine.save("s")) / file
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        half = len(content) // 2
        path.write_bytes(
            content[:half] if damage == "cut" else content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        )
    train(engine, 1)
    before = fingerprint(engine)
    if file == "engine.json" and damage == "changed":
        with pytest.raises(StoreError):
            engine.load("s", with_optimizer=True)
    else:
        with pytest.raises(StoreError, match=file.replace(".", r"\.")):
            engine.load("s", with_optimizer=True)
    assert fingerprint(engine) == before


def test_names_and_absent_states(opened):
    engine = opened()
    train(engine, 1)
    engine.save("step-1")
    with pytest.raises(StoreError, match=r"no saved state 'step-2'.*There: step-1"):
        engine.load("step-2", with_optimizer=True)
    for name in ("", "../x", ".hidden", "a/b"):
        with pytest.raises(ConfigError, match="state name"):
            engine.save(name)
    engine.forward_backward(rows_of(engine), LossConfig())
    with pytest.raises(ConfigError, match="a gradient is held"):
        engine.save("mid")


def test_a_base_that_changed_is_no_reference(opened, base, tmp_path):
    import shutil

    mine = tmp_path / "mine"
    shutil.copytree(base, mine)
    engine = opened(at=mine)
    rows = rows_of(engine)
    os.utime(mine / "model.safetensors", ns=(1, 1))
    with pytest.raises(StoreError, match="no reference any more"):
        engine.forward_backward(rows, LossConfig(kl=0.1))


def test_a_save_over_another_is_all_or_nothing(opened, base, tmp_path):
    """kill -9 while a process saves the same name again and again: what is left loads, and is one of its versions."""
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import torch; torch.set_num_threads(1)
from pathlib import Path
from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig
engine = open_engine({str(base)!r}, EngineConfig(device="cpu"), folder=Path({str(tmp_path)!r}) / "states")
engine.save("s"); print("saved", flush=True)
while True:
    engine._version += 1
    engine.save("s")
"""
    engine = opened()
    for delay in (0.02, 0.11):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout and any(line.startswith("saved") for line in process.stdout)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        engine.load("s", with_optimizer=True)
        assert engine.version >= 0


def test_a_kill_between_the_two_renames_is_mended(opened):
    engine = opened()
    where = Path(engine.save("s"))
    where.rename(where.with_name(".s.old"))  # the old one put aside, the new one not yet in place
    engine.load("s", with_optimizer=True)
    assert where.is_dir() and not where.with_name(".s.old").exists()
    where.with_name(".s.part").mkdir()  # a save that was killed early
    engine.save("s")
    assert sorted(p.name for p in where.parent.iterdir()) == ["s"]


def test_a_disk_without_room_keeps_the_old_state(opened):
    """A limit on the size of files stands for the full disk: writing fails halfway through the weights."""
    engine = opened()
    where = Path(engine.save("s"))
    before = {p.name: p.read_bytes() for p in where.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(StoreError, match="cannot save the state"):
            engine.save("s")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {p.name: p.read_bytes() for p in where.iterdir()} == before and len(list(where.parent.iterdir())) == 1
