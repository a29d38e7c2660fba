"""The toy policy's gradient: the losses of the GRPO family for replies of one token, in closed form.

Every loss here has a gradient of the form mean of w_i * grad log pi(a_i | s_i), with w_i = ratio * advantage where the ratio moves the loss, and 0
where clipping stops it. The KL term and the entropy bonus are exact over actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coevo.engines.types import LossConfig
from coevo.training.settings import Recipe
from coevo.training.toy_world import STATES, State, features, log_policy


@dataclass(frozen=True)
class Choices:
    """A batch: states, chosen actions, their log-probabilities when sampled, and advantages."""

    states: tuple[State, ...]
    actions: np.ndarray
    logprobs: np.ndarray
    advantages: np.ndarray


def step_of(
    weights: np.ndarray, chosen: Choices, loss: LossConfig, recipe: Recipe, rate: float
) -> tuple[np.ndarray, float]:
    """One step of gradient ascent from `weights`; returns the new ones and the gradient's norm before clipping."""
    gradient = _policy_gradient(weights, chosen, loss, recipe.episode.temperature)
    if loss.kl:
        gradient -= loss.kl * _kl_gradient(weights)
    if loss.entropy:
        gradient += loss.entropy * _entropy_gradient(weights, recipe.episode.temperature)
    norm = float(np.linalg.norm(gradient))
    bound = recipe.optim.max_grad_norm
    if bound is not None and norm > bound:
        gradient *= bound / norm
    return weights + rate * gradient, norm


def entropy_of(weights: np.ndarray, temperature: float = 1.0) -> float:
    """Mean entropy over the states, in nats."""
    logs = log_policy(weights, STATES, temperature)
    return float(-(np.exp(logs) * logs).sum(axis=1).mean())


def kl_of(weights: np.ndarray, reference: np.ndarray) -> float:
    """Mean KL(policy || reference) over the states."""
    logs, others = log_policy(weights, STATES), log_policy(reference, STATES)
    return float((np.exp(logs) * (logs - others)).sum(axis=1).mean())


def _policy_gradient(weights: np.ndarray, chosen: Choices, loss: LossConfig, temperature: float) -> np.ndarray:
    if not len(chosen.actions):
        return np.zeros_like(weights)
    logs = log_policy(weights, chosen.states, temperature)
    rows = np.arange(len(chosen.actions))
    with np.errstate(over="ignore"):
        ratios = np.exp(logs[rows, chosen.actions] - chosen.logprobs)
    pull = _weights(ratios, chosen.advantages, loss)
    inner = -np.exp(logs)
    inner[rows, chosen.actions] += 1.0
    return features(chosen.states).T @ (pull[:, None] * inner) / (temperature * len(rows))


def _weights(ratios: np.ndarray, advantages: np.ndarray, loss: LossConfig) -> np.ndarray:
    low, high = 1 - loss.clip_low, 1 + loss.clip_high
    if loss.name == "cross_entropy":
        return advantages
    if loss.name == "importance_sampling":
        return ratios * advantages
    if loss.name == "cispo":
        return np.minimum(ratios, high) * advantages
    stopped = ((advantages > 0) & (ratios > high)) | ((advantages < 0) & (ratios < low))
    if loss.ratio_cap is not None:
        stopped |= (advantages < 0) & (ratios > loss.ratio_cap)
    return np.where(stopped, 0.0, ratios * advantages)


def _entropy_gradient(weights: np.ndarray, temperature: float) -> np.ndarray:
    """Of `entropy_of`: -p * (log p + H), per state."""
    logs = log_policy(weights, STATES, temperature)
    p = np.exp(logs)
    entropy = -(p * logs).sum(axis=1, keepdims=True)
    return features(STATES).T @ (-p * (logs + entropy)) / (temperature * len(STATES))


def _kl_gradient(weights: np.ndarray) -> np.ndarray:
    """Of `kl_of(weights, 0)`: the reference is uniform."""
    return -_entropy_gradient(weights, 1.0)
