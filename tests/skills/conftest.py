"""One runner of scripts for the whole session: its sandbox is warm, and what cases said is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coevo.skills.running import Scripts


@pytest.fixture(scope="session")
def scripts() -> Iterator[Scripts]:
    with Scripts(walled=True, timeout_s=5) as runner:
        yield runner
