"""TRL's own objects for trainer `trl`: its config from a recipe, and its trainer with our advantages, rewards and rates."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError
from coevo.training.schedule import lr_at
from coevo.training.settings import Recipe

if TYPE_CHECKING:
    from coevo.training.trl_trainer import TrlLoop

FOLDER = "trl"
"""In the run folder: TRL's own checkpoints, with the optimizer's state."""


LOSSES = {"ppo": "dapo", "dapo": "dapo", "grpo": "grpo", "gspo": "grpo", "dr_grpo": "dr_grpo", "cispo": "cispo"}
"""Ours to TRL's `loss_type`."""


def make_trainer(loop: TrlLoop) -> Any:
    """A `GRPOTrainer` over the engine's own weights, fed by the loop."""
    import torch
    from datasets import Dataset
    from torch.optim.lr_scheduler import LambdaLR
    from transformers import PrinterCallback, ProgressCallback
    from trl import GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

    recipe = loop.parts.recipe

    class Trainer(GRPOTrainer):
        """TRL's trainer with advantages, rewards and learning rate from here."""

        def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
            return torch.tensor(loop.rewards, device=self.accelerator.device)[:, None]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            ids = output["completion_ids"]
            advantages = torch.zeros(ids.shape, device=ids.device)
            for i, values in enumerate(loop.advantages):
                advantages[i, : len(values)] = torch.tensor(values)
            output["advantages"] = advantages
            return output

        def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
            optimizer = optimizer or self.optimizer
            self.lr_scheduler = LambdaLR(optimizer, lambda i: lr_at(recipe, i // recipe.epochs + 1) / recipe.lr)
            return self.lr_scheduler

    rows = Dataset.from_list([{"prompt": "-"}] * recipe.groups * max(1, recipe.steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That rollout_func is experimental is known, and tested for.
        trainer = Trainer(
            model=loop.policy.engine.module,
            processing_class=loop.policy.engine.codec.tokenizer,
            reward_funcs=[coevo],
            args=grpo_config(recipe, loop.parts.run.path / FOLDER, loop.policy.engine.module.device.type),
            train_dataset=rows,
            rollout_func=lambda prompts, trainer: loop.batch(),
            callbacks=[_watching(loop)],
        )
    for talker in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(talker)
    return trainer


def _watching(loop: TrlLoop) -> Any:
    """A callback that tells the loop what TRL does."""
    from transformers import TrainerCallback

    class Watching(TrainerCallback):
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.before_optimizer()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> Any:
            if logs and "loss" in logs and loop.told(logs):
                control.should_save = True
            if loop.ended is not None:
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            loop.saved()

    return Watching()


def coevo(**_: Any) -> list[float | None]:
    """Stands where TRL wants a reward function; what it logs is handed over by `_calculate_rewards`."""
    raise AssertionError("rewards are handed over, not computed by TRL")


def grpo_config(recipe: Recipe, folder: Path, device: str) -> Any:
    """The recipe as a `GRPOConfig`; what `trl.options` name wins."""
    from trl import GRPOConfig  # pyright: ignore[reportPrivateImportUsage]

    rows, loss, optim = recipe.groups * recipe.group_size, recipe.loss, recipe.optim
    micro = recipe.trl.micro_rows or rows
    if rows % micro:
        raise ConfigError(f"trl.micro_rows = {micro} does not divide the {rows} rows of a step (groups x group_size)")
    turns = recipe.episode.rounds if recipe.episode.name == "refine" else 1
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": rows // micro,
        "steps_per_generation": rows // micro,
        "num_generations": recipe.group_size,
        "num_iterations": recipe.epochs,
        "max_steps": recipe.steps * recipe.epochs,
        "max_completion_length": loss.length or turns * recipe.episode.max_tokens,
        "temperature": recipe.episode.temperature,
        "learning_rate": recipe.lr,
        "adam_beta1": optim.beta1,
        "adam_beta2": optim.beta2,
        "adam_epsilon": optim.eps,
        "weight_decay": optim.weight_decay,
        "max_grad_norm": optim.max_grad_norm or 1e9,
        "loss_type": LOSSES[loss.name],
        "importance_sampling_level": "sequence" if loss.name == "gspo" else "token",
        "epsilon": loss.clip_low,
        "epsilon_high": 1 + loss.clip_high if loss.name == "cispo" else loss.clip_high,
        "delta": loss.ratio_cap,
        "beta": loss.kl,
        "use_bias_correction_kl": False,
        "scale_rewards": "none",
        "entropy_coef": loss.entropy,
        "shuffle_dataset": False,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": recipe.checkpoint_every * recipe.epochs,
        "save_total_limit": 2,
        "gradient_checkpointing": False,
        "use_cpu": device == "cpu",
        "bf16": device == "cuda" and recipe.engine.compute != "float32",
        "report_to": [],
        "disable_tqdm": True,
        "seed": recipe.seed % (1 << 32),
    }
    return GRPOConfig(**{**settings, **recipe.trl.options})
