"""Between messages and a local model's tokens: the same text, hence the same ids, as `coevo.models.local` gives it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from coevo.errors import ModelError
from coevo.models import chat, weights
from coevo.models.types import Message


class ChatCodec:
    """By the tokenizer's chat template or, where it has none, the plain one."""

    def __init__(self, tokenizer: Any, ends: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._ends = ends

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer itself."""
        return self._tokenizer

    @property
    def ends(self) -> frozenset[int]:
        return self._ends

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end a reply beside `ends`: the plain template has no end-of-turn token."""
        return () if getattr(self._tokenizer, "chat_template", None) else (chat.PLAIN_STOP,)

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Ids of the prompt up to where the reply begins; never empty."""
        return tuple(self.encode(chat.render(self._tokenizer, messages)) or [min(self._ends, default=0)])

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(chat.token_ids(self._tokenizer, text))

    def encode_next(self, message: Message, *, ended: bool) -> tuple[int, ...]:
        """Ids between a sampled reply and the next: what the template writes after a reply's text. Where the reply brought its own end
        token, the template's is left out."""
        mark = "reply"
        while mark in message.content:
            mark += "-"
        head = [Message("user", "-"), Message("assistant", mark)]
        text = chat.render(self._tokenizer, [*head, message])
        # searched within what follows the first user message: the role's name may hold the mark as well
        opening = chat.render(self._tokenizer, head[:1])
        start = len(opening) if text.startswith(opening) else 0
        at = text.find(mark, start)
        if at < 0:
            raise ModelError(
                "the model's chat template drops replies that are not the last: a conversation cannot go on"
            )
        ids = self.encode(text[at + len(mark) :])
        return ids[1:] if ended and ids and ids[0] in self._ends else ids

    def decode(self, ids: Sequence[int]) -> str:
        return chat.text_of(self._tokenizer, ids)


def load_codec(folder: Path) -> ChatCodec:
    """The codec of a Hugging Face folder, without its weights. Raises `ModelError` where it holds no tokenizer."""
    from transformers import AutoTokenizer, GenerationConfig

    options: Any = {"local_files_only": True, "trust_remote_code": False}
    try:
        with weights.quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            own = (folder / "generation_config.json").is_file()
            generation = GenerationConfig.from_pretrained(folder) if own else GenerationConfig()
    except Exception as e:
        raise ModelError(f"cannot load a tokenizer from {folder}: {type(e).__name__}: {e}") from e
    return ChatCodec(tokenizer, chat.end_tokens(SimpleNamespace(generation_config=generation), tokenizer))
