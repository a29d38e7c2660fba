"""One thread per process, set before torch or numpy are loaded and inherited by every process that a test starts; and what rooms share.

The models here are so small that a second thread only waits for the first: on two busy cores, teaching the trainer's tiny policy took 22 s of
processor time with two threads and 4 s with one. Sums of floats also come out the same on every machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# The same examples every time, and no verdict that depends on how busy the machine is. `--hypothesis-profile=explore` draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def begun_mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a mini model that has begun to speak: most of its replies are no programs, and some are better ones."""
    pytest.importorskip("torch", reason="the mini model needs torch (extra train)")
    pytest.importorskip("transformers", reason="the mini model needs transformers (extra train)")
    from coevo.mini.pretrain import SIZES, pretrain

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVO_CACHE", str(tmp_path_factory.mktemp("cache")))
        return pretrain(config=SIZES["tiny"].model_copy(update={"steps": 40, "warmup": 10}))
