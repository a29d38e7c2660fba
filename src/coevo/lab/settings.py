"""Everything that determines a lab."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coevo.config import Config
from coevo.gate.settings import GateConfig
from coevo.training.settings import Recipe

ApproveAt = Literal["never", "design", "launch", "promote", "all"]


class LabTasks(Config):
    """Four splits that never share a task. Trainer `toy` needs none: its world makes them."""

    train: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    """Selects."""
    holdout: tuple[str, ...] = ()
    """Confirms; each access is counted."""
    report: tuple[str, ...] = ()
    """Reports; touched once, when the lab ends."""


class LabBudget(Config):
    """Upper bounds of a lab; None is unlimited."""

    rounds: int = Field(default=6, ge=1, le=1000)
    steps: int | None = Field(default=None, ge=1, le=10**15)
    """Optimizer steps, over all branches."""
    usd: float | None = Field(default=None, ge=1e-6, le=10**9)
    tokens: int | None = Field(default=None, ge=1, le=10**15)
    """Of the agent's model and of sampling."""
    minutes: float | None = Field(default=None, ge=1e-6, le=10**9)


class AgentConfig(Config):
    """Who proposes."""

    kind: Literal["playbook", "model", "command", "scripted"] = "playbook"
    model: str = ""
    """model: a model spec (docs/models)."""
    command: tuple[str, ...] = ()
    """command: a headless coding agent; gets the brief's path as its last argument, works in a worktree."""
    walls: Literal["bubblewrap", "none"] = "bubblewrap"
    """command: what keeps it from the lab's run folder and the tasks (their hidden tests), and from writing anywhere but its worktree.
    none: nothing does, and the report says so."""
    writable: tuple[str, ...] = ()
    """command: folders it may write to beside its worktree (where it keeps its own state, say ~/.claude)."""
    environment: tuple[str, ...] = ()
    """command: names of environment variables it gets beside PATH, HOME, LANG and TERM (its API key)."""
    script: str = ""
    """scripted: a JSONL file of proposals, one line a turn."""
    timeout_s: float = Field(default=900.0, gt=0)
    """Of one turn."""


class PruneConfig(Config):
    """Hopeless branches end early (successive halving, Jamieson and Talwalkar 2016): at each rung the worse part of a round's branches stops."""

    rungs: int = Field(default=1, ge=0, le=4)
    """Looks at the branches of a round while they train; 0 lets all finish."""
    keep: float = Field(default=0.5, gt=0, le=1)
    """Share that goes on after a rung; the control and at least one other always do."""


class LabConfig(Config):
    """Everything that determines a lab but its folder."""

    name: str = Field(default="lab", pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    goal: str = "Raise true ability on tasks it has not seen."
    domain: str = "code"
    """With the base model: the context in which skills gather evidence."""
    seed: int = Field(default=0, ge=0, lt=1 << 62)
    recipe: Recipe = Recipe()
    """The harness's first recipe. Its seed, tasks and steps are the lab's."""
    tasks: LabTasks = LabTasks()
    steps: int = Field(default=40, ge=1)
    """Optimizer steps of a branch."""
    branches: int = Field(default=2, ge=1, le=16)
    """Interventions tried in a round, beside the control."""
    control: bool = True
    """Train the parent's own recipe on for as many steps in every round: what a change is held against, since more steps alone may help."""
    fresh: bool = False
    """Branches start from the base weights, not from their parent's."""
    spend: float | None = Field(default=2.0, ge=1)
    """Most that a branch's training may spend, in programs judged and in tokens, as a multiple of its control's; one that spent more is rejected
    unmeasured, since more work may have bought its gain. null: no bound; the report says what was spent all the same."""
    agent: AgentConfig = AgentConfig()
    gate: GateConfig = GateConfig()
    prune: PruneConfig = PruneConfig()
    budget: LabBudget = LabBudget()
    frozen_harness: bool = False
    """Diagnostics, rules and skills stay as they are: what harness evolution is held against."""
    calibration: int = Field(default=200, ge=0, le=100_000)
    """Twin trials before the first round (resampled from one real measurement of the parent). 0: uncalibrated; the report says so on top."""
    approve: ApproveAt = "never"
    """Where a person must say yes (`coevo lab approve`)."""
    skills: tuple[str, ...] = ()
    """Folders of skills beside the shipped ones."""
    allowed: dict[str, str] = Field(default_factory=dict)
    """What may change, beside or instead of the default list (`coevo.lab.interventions.ALLOWED`): pattern -> what it is; "" forbids."""
    parallel: int = Field(default=1, ge=1, le=64)
    """Branches that train at once."""
    placebo: bool = False
    """Arm `placebo`: interventions are drawn at random from what is allowed, whatever the diagnosis."""

    def context(self) -> str:
        """Of skill evidence."""
        return f"{self.domain}/{self.recipe.base.rsplit('/', 1)[-1] if self.recipe.trainer != 'toy' else 'toy'}"
