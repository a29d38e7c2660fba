"""Settings of the gate. A lab seals them: no branch can change them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coevo.config import Config


class GateConfig(Config):
    """When a gain is believed."""

    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """One-sided rate at which a child that is no better than its parent is promoted, over all looks at the gate split."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """At which the minimum detectable effect is stated."""
    looks: int = Field(default=3, ge=1, le=10)
    """Interim looks at most; each takes fresh samples of both arms."""
    spending: Literal["obrien_fleming", "pocock", "linear"] = "obrien_fleming"
    """How alpha is spread over the looks (Lan and DeMets 1983)."""
    samples: int = Field(default=4, ge=1)
    """Per task, arm and look."""
    min_tasks: int = Field(default=12, ge=2)
    """With fewer measured tasks nothing is promoted."""
    min_gain: float = Field(default=0.0, ge=0, lt=1)
    """A gain that is certain and smaller than this is rejected as not worth having."""
    futility: float = Field(default=0.05, ge=0, lt=0.5)
    """Stop early when the chance of a promotion at the last look, given the data so far, is under this. 0 never does."""
    unmeasured: float = Field(default=0.1, ge=0, lt=1)
    """A larger share of unmeasured samples in either arm makes the verdict `unmeasured`."""
    regression: float = Field(default=0.1, ge=0, le=1)
    """Loss on tasks that the parent passes reliably that is not forgiven (mean over those tasks, one-sided at alpha)."""
    gap: float = Field(default=0.05, ge=0)
    """Rise of (reward or public fitness) - truth against the parent, beyond which a gain is not believed."""
    holdout: bool = True
    """Confirm on the holdout what passed everything else."""
    holdout_alpha: float = Field(default=0.1, gt=0, lt=0.5)
    """One-sided level A of the first holdout access; the k-th has 2 A / (k (k + 1)), so that all accesses together stay under 2 A."""
    holdout_most: int = Field(default=20, ge=1)
    """Accesses in a lab's life; then nothing is promoted any more."""
