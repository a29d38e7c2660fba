"""`mini` as the base of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def base_folder(base: str, *, notify: Callable[[str], None] = lambda text: None) -> Path | None:
    """The folder of base `mini` or `mini:SIZE`, pre-trained at its first use; None for any other base.

    Raises `ConfigError` for a size that there is not.
    """
    name, _, size = base.partition(":")
    if name != "mini":
        return None
    from coevo.mini.pretrain import mini_folder

    return mini_folder(size or "mini", notify=notify)
