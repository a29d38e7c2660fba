"""From messages to the text that a local model continues."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from coevo.errors import ModelError
from coevo.models.types import Message

PLAIN_STOP = "\nUser:"
"""Ends a reply under the plain template, since a model without a chat template has no end-of-turn token."""

_END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>")


def render(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The prompt, up to where the assistant's reply begins, by the tokenizer's own template or, if it has none, the plain one.
    A template that knows no system role gets the system text at the head of the first user message.

    Messages quote what untrusted programs hold and say. So the marks of turns in them are parted by a space: they stay text.
    """
    messages = _without_marks(tokenizer, messages)
    if not getattr(tokenizer, "chat_template", None):
        return plain(messages)
    try:
        return _apply(tokenizer, messages)
    except Exception as first:
        merged = merge_system(messages)
        if merged == tuple(messages):
            raise ModelError(f"the model's chat template cannot render these messages: {first}") from first
        try:
            return _apply(tokenizer, merged)
        except Exception:
            raise ModelError(f"the model's chat template cannot render these messages: {first}") from first


def _without_marks(tokenizer: Any, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without special tokens of the tokenizer and, where the plain template serves, without its names of roles."""
    marks = set(tokenizer.all_special_tokens) | {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
    marks |= _template_marks(tokenizer)
    pattern = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True) if len(mark) > 1)
    found = [(re.compile(pattern), lambda match: f"{match[0][0]} {match[0][1:]}")] if pattern else []
    if not getattr(tokenizer, "chat_template", None):
        found.append((re.compile(r"^(?=(system|user|assistant):)", re.MULTILINE | re.IGNORECASE), lambda match: " "))
    kept = []
    for message in messages:
        content = message.content
        for mark, part in found:
            content = mark.sub(part, content)
        kept.append(Message(message.role, _without_control(tokenizer, content)))
    return tuple(kept)


def _template_marks(tokenizer: Any) -> set[str]:
    """What a chat template writes around messages as plain text: `[INST]`, `<<SYS>>`, `### Response:`."""
    if not getattr(tokenizer, "chat_template", None):
        return set()
    try:
        text = _apply(tokenizer, [Message("user", "\0"), Message("assistant", "\0"), Message("user", "\0")])
    except Exception:  # Told where the messages themselves are rendered.
        return set()
    frames = text.replace("\0", "\n")
    return set(_BRACKETED.findall(frames)) | {line.strip() for line in frames.splitlines() if _HEADING.match(line)}


_BRACKETED = re.compile(r"<+[^<>\s]{1,40}>+|\[[^\[\]\s]{1,40}\]")
_HEADING = re.compile(r"\s*#+ *\w[\w ]*:\s*$")


def _without_control(tokenizer: Any, content: str) -> str:
    """The text itself, unless the tokenizer rewrites texts before it looks for special tokens (as by NFKC) and finds one then."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.normalizer is None:
        return content
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special} - {tokenizer.unk_token_id}
    ids = token_ids(tokenizer, content)
    return text_of(tokenizer, [i for i in ids if i not in special]) if special.intersection(ids) else content


def plain(messages: Sequence[Message]) -> str:
    """`System: ...`, `User: ...`, `Assistant: ...`, blank lines between, ending in `Assistant:`."""
    return "".join(f"{m.role.capitalize()}: {m.content.strip()}\n\n" for m in messages) + "Assistant:"


def merge_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """System texts moved to the head of the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    first = next((i for i, m in enumerate(rest) if m.role == "user"), None)
    if not system or first is None:
        return tuple(messages)
    rest[first] = Message("user", f"{system}\n\n{rest[first].content}")
    return tuple(rest)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a reply: the model's and tokenizer's own, and the end-of-turn marks of common templates."""
    found: set[int] = set()
    for value in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        found.update(value if isinstance(value, list) else [value] if value is not None else [])
    specials = set(getattr(tokenizer, "all_special_tokens", []))
    found.update(tokenizer.convert_tokens_to_ids(mark) for mark in _END_OF_TURN if mark in specials)
    return frozenset(found)


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text as it stands, without tokens that a tokenizer adds by itself."""
    # lone surrogates have no UTF-8 form and would make the tokenizer raise
    plain = text.encode("utf-8", "replace").decode()
    return tokenizer(plain, add_special_tokens=False, verbose=False)["input_ids"]  # lengths are checked by us


def text_of(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of sampled ids, without special tokens."""
    return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _apply(tokenizer: Any, messages: Sequence[Message]) -> str:
    plain_messages = [{"role": m.role, "content": m.content} for m in messages]
    return tokenizer.apply_chat_template(plain_messages, tokenize=False, add_generation_prompt=True)
