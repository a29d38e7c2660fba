"""Search strategies by name. All run through the same loop; they differ in whom they start from and what they show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """How one strategy differs from another. `coevo.evolution.decide` holds the rules that `parent` names."""

    parent: str
    """select: by the island's selection. start, latest, best (so far), climber (last one as good as the best)."""
    islands: bool = False
    """Whether islands and migration apply; else there is one population."""
    others: bool = False
    """Whether second parents and inspirations are used."""
    history: bool = True
    """Whether a model sees earlier attempts, and why its last reply was rejected."""
    one_at_a_time: bool = False
    """Each step waits for the one before, whatever `batch` says."""
    proposers: tuple[str, ...] = ("rewrite", "diff")
    """Model proposers used when the config names none."""
    operators: tuple[str, ...] = ("mutate",)
    """Free operators used when the config names none and no model is given."""
    mixed: bool = False
    """Whether models and operators share the steps by default."""


STRATEGIES: dict[str, Strategy] = {
    "evolve": Strategy(
        "select",
        islands=True,
        others=True,
        proposers=("rewrite", "diff", "crossover"),
        operators=("tune", "mutate", "splice"),
        mixed=True,
    ),
    "independent": Strategy("start", history=False),
    "sequential": Strategy("latest", one_at_a_time=True),
    "best_of_n": Strategy("best"),
    "hill_climb": Strategy("climber", one_at_a_time=True),
}


def default_weights(strategy: Strategy, *, models: bool) -> dict[str, float]:
    """Proposers and weights when the config names none."""
    names = strategy.proposers if models else ()
    if not models or strategy.mixed:
        names = (*names, *strategy.operators)
    return dict.fromkeys(names, 1.0)
