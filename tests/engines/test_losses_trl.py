"""The losses and their gradients against TRL's own `_compute_loss`: the same model, rows and off-policy log-probabilities."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coevo.engines.types import LossConfig, OptimConfig
from tests.engines.conftest import gradients, rows_of, shifted

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")
pytest.importorskip("trl", reason="trl is not installed (extra: trl)")

LENGTH = 12


@pytest.fixture(scope="module", params=[1.0, 0.7], ids=["T=1", "T=0.7"])
def trainer(base, tmp_path_factory, request):
    """A real GRPOTrainer on the tiny model; what each case needs of its settings is set by `trl_loss`."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=LENGTH,
        temperature=request.param,
        use_bias_correction_kl=False,  # True weighs the KL of each token with its ratio; ours is the plain estimator
        disable_tqdm=True,
    )
    data = Dataset.from_list([{"prompt": "x"}] * 4)
    return GRPOTrainer(
        str(base), reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args, train_dataset=data
    )


def trl_loss(trainer, rows, *, reference=None, **settings):
    """(loss, gradients) of TRL on the rows as one batch; `settings` are the trainer's attributes (or `delta`, of its arguments)."""
    trainer.args.delta = settings.pop("delta", None)
    trainer.beta = settings.pop("beta", 0.0)
    trainer.entropy_coef = settings.pop("entropy_coef", 0.0)
    trainer._entropy_bonus_enabled = trainer.entropy_coef != 0
    trainer.loss_type = settings.pop("loss_type")
    trainer.importance_sampling_level = settings.pop("level", "token")
    trainer.epsilon_low, trainer.epsilon_high = settings.pop("low", 0.2), settings.pop("high", 0.28)
    assert trainer.temperature == rows[0].temperature
    assert not settings
    model = trainer.model.eval()  # no dropout here, and no accumulation steps in the divisor
    model.zero_grad()
    prompt = max(r.prompt_tokens for r in rows)
    batch = {name: torch.zeros(len(rows), prompt, dtype=torch.long) for name in ("prompt_ids", "prompt_mask")}
    batch |= {
        name: torch.zeros(len(rows), LENGTH, dtype=torch.long)
        for name in ("completion_ids", "completion_mask", "tool_mask")
    }
    batch |= {
        name: torch.zeros(len(rows), LENGTH) for name in ("advantages", "old_per_token_logps", "ref_per_token_logps")
    }
    for i, row in enumerate(rows):
        p, n = row.prompt_tokens, len(row.token_ids) - row.prompt_tokens
        batch["prompt_ids"][i, -p:] = torch.tensor(row.token_ids[:p])
        batch["prompt_mask"][i, -p:] = 1
        batch["completion_ids"][i, :n] = torch.tensor(row.token_ids[p:])
        batch["completion_mask"][i, :n] = 1
        batch["tool_mask"][i, :n] = torch.tensor(row.trained).long()
        batch["advantages"][i, :n] = torch.tensor(row.advantages)
        batch["old_per_token_logps"][i, :n] = torch.tensor(row.logprobs)
        if reference is not None:
            batch["ref_per_token_logps"][i, :n] = torch.tensor(reference[i])
    batch["num_items_in_batch"] = batch["tool_mask"].sum()
    loss = trainer._compute_loss(model, batch)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


CASES = {
    "dapo": (LossConfig(name="dapo"), {"loss_type": "dapo"}),
    "ppo": (LossConfig(name="ppo"), {"loss_type": "bnpo"}),
    "grpo": (LossConfig(name="grpo"), {"loss_type": "grpo"}),
    "dr_grpo": (LossConfig(name="dr_grpo", length=LENGTH), {"loss_type": "dr_grpo"}),
    "gspo": (
        LossConfig(name="gspo", clip_low=0.02, clip_high=0.03),
        {"loss_type": "grpo", "level": "sequence", "low": 0.02, "high": 0.03},
    ),
    "cispo": (LossConfig(name="cispo", clip_high=0.28), {"loss_type": "cispo", "high": 1.28}),
    "dual clip": (LossConfig(name="dapo", ratio_cap=1.5), {"loss_type": "dapo", "delta": 1.5}),
    "kl": (LossConfig(name="dapo", kl=0.1), {"loss_type": "dapo", "beta": 0.1}),
    "kl, by sequences": (LossConfig(name="grpo", kl=0.3), {"loss_type": "grpo", "beta": 0.3}),
    "entropy": (LossConfig(name="dapo", entropy=0.05), {"loss_type": "dapo", "entropy_coef": 0.05}),
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_are_trls(case, trainer, opened):
    temperature = trainer.temperature
    config, settings = CASES[case]
    engine = opened()
    rows = shifted(rows_of(engine, new=LENGTH, temperature=temperature))
    rows[1] = replace(rows[1], trained=tuple(j % 3 != 1 for j in range(len(rows[1].trained))))
    reference = None
    if config.kl:  # a reference that is not the policy: the weights after a step in some direction
        engine.save("before")
        engine.forward_backward(rows, LossConfig())
        engine.optim_step(0.01, OptimConfig())
        engine.save("away")
        engine.load("before", with_optimizer=True)
        reference = engine.logprobs(
            [r.token_ids for r in rows],
            prompt_tokens=[r.prompt_tokens for r in rows],
            temperature=temperature,
            of="away",
        )
        config = config.model_copy(update={"reference": "away"})
    stats = engine.forward_backward(rows, config)
    loss, expected = trl_loss(trainer, rows, reference=reference, **settings)
    assert stats.loss == pytest.approx(loss, rel=1e-5, abs=1e-6)
    got = gradients(engine)
    scale = max(float(g.abs().max()) for g in expected.values())
    for name, gradient in expected.items():
        assert torch.allclose(got[name], gradient, rtol=1e-4, atol=1e-5 * scale), name
