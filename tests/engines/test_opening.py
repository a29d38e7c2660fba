"""From a name to an engine, and the words for what is none."""

from __future__ import annotations

import pytest

from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig, LoraConfig
from coevo.errors import ConfigError, StoreError
from tests.engines.conftest import prompts_of

pytest.importorskip("torch", reason="torch is not installed (extra: local)")


def test_a_path_a_spec_and_a_saved_state_open(base, tmp_path):
    engines = [open_engine(name, folder=tmp_path / "s") for name in (base, str(base), f"local:{base}")]
    engines.append(open_engine(engines[0].save("first"), folder=tmp_path / "t"))
    prompts = prompts_of(engines[0])
    replies = [[s.token_ids for s in engine.sample(prompts)] for engine in engines]
    assert replies.count(replies[0]) == 4


def test_the_context_is_the_smaller_of_the_models_and_the_callers(base, tmp_path):
    told = [open_engine(base, folder=tmp_path, context=c).capabilities.max_tokens for c in (None, 100, 1000)]
    assert told == [256, 100, 256]
    with pytest.raises(ConfigError, match="context = 1"):
        open_engine(base, folder=tmp_path, context=1)


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("/no/such/folder", EngineConfig(), "no such folder"),
        (None, EngineConfig(device="cuda:99"), "cuda:99"),
        (None, EngineConfig(name="tinker"), "engine.url is empty"),
    ],
)
def test_what_cannot_be_opened(base, tmp_path, name, config, said):
    with pytest.raises(ConfigError, match=said):
        open_engine(name or base, config, folder=tmp_path)


def test_targets_of_an_adapter_that_are_none(base, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed (extra: train)")
    with pytest.raises(ConfigError, match=r"engine\.lora\.targets = 'nowhere'"):
        open_engine(base, EngineConfig(lora=LoraConfig(targets="nowhere")), folder=tmp_path)
    some = open_engine(base, EngineConfig(lora=LoraConfig(rank=2, targets="q_proj, v_proj")), folder=tmp_path)
    assert some.capabilities.details["trained"] == f"{2 * 2 * (64 * 2 + 64 + 32):,}"
    with pytest.raises(StoreError, match="no saved state"):
        some.load("nothing", with_optimizer=True)
