"""Prompts as token ids, made to fit: the search's own prompt, shortened as a search would until the reply has room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coevo.episodes.types import EpisodeConfig, Policy, StartState
from coevo.errors import UsageError
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Context, Edit
from coevo.tasks.types import Task

STYLES = frozenset({Edit.REWRITE, Edit.DIFF, Edit.CROSSOVER, Edit.WRITE})
"""How a policy can be asked."""

_SHRINK = 0.95
"""Aimed length over the length that would just fit, since tokens a character differ from part to part."""


@dataclass(frozen=True)
class Opening:
    """The prompt of a start state: ids and text; or the reason why there is none."""

    ids: tuple[int, ...] = ()
    text: str = ""
    unfit: str = ""


class Openings:
    """Prompts of start states, each made once."""

    def __init__(self, policy: Policy, tasks: Mapping[str, Task], config: EpisodeConfig) -> None:
        self._policy, self._tasks, self._config = policy, tasks, config
        self._made: dict[tuple[str, Edit, Context], Opening] = {}

    def of(self, state: StartState) -> Opening:
        """The opening of a state. Raises `UsageError` for a state that is of no use at all: an unknown task or style."""
        shown = (
            state.task,
            state.style,
            state.context,
        )  # Not the id: states that differ in layout or numbers share it.
        if shown not in self._made:
            self._made[shown] = self._make(state)
        return self._made[shown]

    def _make(self, state: StartState) -> Opening:
        if state.task not in self._tasks:
            raise UsageError(f"start state {state.id} is about task {state.task!r}, which is not among the tasks given")
        if state.style not in STYLES:
            raise UsageError(f"start state {state.id} asks for a {state.style.value!r}, which no policy writes")
        if state.style is not Edit.WRITE and state.context.parent.fitness is None:
            return Opening(unfit="its current program was never measured")
        try:
            return self._fitted(state)
        except UsageError as e:
            return Opening(unfit=str(e))

    def _fitted(self, state: StartState) -> Opening:
        """The longest prompt that leaves room for a whole reply. Raises `UsageError` where none does."""
        codec, context = self._policy.codec, self._policy.capabilities.max_tokens
        view, longest = TaskView.of(self._tasks[state.task].config), self._config.max_tokens
        chars, ids = self._config.prompt_chars, ()
        while True:
            try:
                messages = build_messages(view, state.context, style=state.style, max_chars=chars)
            except UsageError:
                if not ids:
                    raise
                raise UsageError(
                    f"the prompt has {len(ids)} tokens with nothing left to drop, and with max_tokens = {longest} the "
                    f"context of {context} is too short"
                ) from None
            ids = codec.encode_chat(messages)
            if context is None or len(ids) + longest <= context:
                return Opening(ids, codec.decode(ids))
            if context <= longest:
                raise UsageError(
                    f"episode.max_tokens = {longest} leaves no room for a prompt in a context of {context}"
                )
            have = sum(len(message.content) for message in messages)
            chars = int(_SHRINK * have * (context - longest) / len(ids))
