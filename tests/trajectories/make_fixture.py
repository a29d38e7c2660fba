"""Makes `schema1/`, a small data set of this version's schema. Run it once per schema, never to make a test pass."""

from __future__ import annotations

from pathlib import Path

from coevo.trajectories.folder import write_folder
from coevo.trajectories.rows import SCHEMA
from tests.trajectories.test_folder import simple


def main() -> None:
    folder = Path(__file__).parent / f"schema{SCHEMA}"
    write_folder(folder, {"train": lambda: (simple(i, size=1) for i in range(3))}, facts=dict)


if __name__ == "__main__":
    main()
