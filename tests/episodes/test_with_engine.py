"""With the real engine on a tiny random model: what was sampled is what is trained on, with the sampler's own log-probabilities."""

import pytest

from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig
from coevo.engines.types import LossConfig, OptimConfig, Row
from coevo.episodes.rows import rows_of
from coevo.episodes.running import run_episodes
from coevo.episodes.types import EpisodeConfig
from tests.episodes.stage import CountingPool, ramp_task, starts_of, state_of
from tests.models import tiny

CONFIG = EpisodeConfig(name="refine", rounds=3, max_tokens=20, temperature=0.9)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return ramp_task(tmp_path_factory.mktemp("tasks") / "ramp3")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "CONTEXT", 2048)
        return tiny.make_folder(tmp_path_factory.mktemp("base"))


def test_sampled_tokens_are_the_trained_ones_and_their_logprobs_agree(task, base, tmp_path):
    engine = open_engine(base, EngineConfig(threads=1), folder=tmp_path)
    with CountingPool([task]) as pool:

        def go(starts):
            return run_episodes(engine, starts, CONFIG, pool=pool, tasks={task.name: task}, seed=1, step=2)

        starts = starts_of(state_of(task), 4)
        rollouts = go(starts)
        assert all(not r.unmeasured and len(r.turns) == 3 for r in rollouts)
        assert len({r.token_ids for r in rollouts}) == 4
        assert [r.token_ids for r in go(starts)] == [r.token_ids for r in rollouts]
    parts = [rows_of(r, [1.0, -1.0, 0.5]) for r in rollouts]
    found = engine.logprobs(
        [p.token_ids for p in parts], prompt_tokens=[p.prompt_tokens for p in parts], temperature=CONFIG.temperature
    )
    for part, logprobs in zip(parts, found, strict=True):
        sampled = [(a, b) for a, b, own in zip(part.logprobs, logprobs, part.trained, strict=True) if own]
        assert len(sampled) == sum(part.trained) > 30
        assert max(abs(a - b) for a, b in sampled) < 1e-4
    rows = [
        Row(*part, version=r.version, temperature=r.temperature, group=r.group)
        for part, r in zip(parts, rollouts, strict=True)
    ]
    stats = engine.forward_backward(rows, LossConfig())
    assert stats.tokens == sum(sum(part.trained) for part in parts) and stats.logprob_gap_max < 1e-4
    assert engine.optim_step(1e-3, OptimConfig()).applied and engine.version == 1
    engine.close()
