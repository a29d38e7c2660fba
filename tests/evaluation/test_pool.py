"""Pools of real processes: answers, errors, deaths, deadlines, and what is left behind (nothing)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import ConfigError, InfrastructureError, UsageError, WallsError
from coevo.evaluation.pool import InlinePool, LocalPool, Pool, RemoteTraceback, open_pool
from tests.evaluation import pool_jobs as jobs

LONG = 60.0
"""Seconds a future may take before a test gives up; reached only when something hangs."""


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def pool():
    with LocalPool(2, jobs.setup) as pool:
        yield pool


@pytest.fixture(params=["inline", "local:2"])
def either(request: pytest.FixtureRequest):
    with open_pool(request.param, jobs.setup) as pool:
        yield pool


def test_answers_in_the_order_of_the_futures(either: Pool) -> None:
    futures = [either.submit(jobs.add, i, 1) for i in range(300)]
    assert [f.result(LONG) for f in futures] == list(range(1, 301))


def test_each_worker_sets_up_once(pool: LocalPool) -> None:
    answers = [f.result(LONG) for f in [pool.submit(jobs.whoami) for _ in range(200)]]
    by_worker: dict[int, list[int]] = {}
    for pid, calls in answers:
        by_worker.setdefault(pid, []).append(calls)
    assert 1 <= len(by_worker) <= 2 and os.getpid() not in by_worker
    for calls in by_worker.values():
        assert sorted(calls) == list(range(min(calls), min(calls) + len(calls)))


def test_two_workers_work_at_the_same_time(tmp_path: Path) -> None:
    # Each job waits for the other one's file: only workers that run at the same time can both end.
    with LocalPool(2, jobs.setup) as pool:
        a, b = str(tmp_path / "a"), str(tmp_path / "b")
        futures = [pool.submit(jobs.meet, a, b), pool.submit(jobs.meet, b, a)]
        assert all(f.result(LONG) for f in futures)


@settings(max_examples=25, deadline=None)
@given(
    value=st.recursive(st.integers() | st.floats(allow_nan=False) | st.binary() | st.text(), st.lists, max_leaves=20)
)
def test_values_travel_unchanged(pool: LocalPool, value: object) -> None:
    assert pool.submit(jobs.echo, value).result(LONG) == value


def test_large_messages_do_not_jam(pool: LocalPool) -> None:
    values = [bytes([i]) * (1 << 20) for i in range(24)]
    futures = [pool.submit(jobs.echo, value) for value in values]
    assert [f.result(LONG) for f in futures] == values


def test_exceptions_arrive_with_the_traceback_of_the_worker(pool: LocalPool) -> None:
    error = pool.submit(jobs.fail, "missing").exception(LONG)
    assert isinstance(error, KeyError) and error.args == ("missing",)
    assert isinstance(error.__cause__, RemoteTraceback) and "pool_jobs.py" in str(error.__cause__)


def test_what_cannot_be_pickled_is_still_told(pool: LocalPool) -> None:
    picky = pool.submit(jobs.fail, "picky").exception(LONG)
    assert isinstance(picky, RuntimeError) and "Picky: 1 and 2" in str(picky)
    assert "lock" in str(pool.submit(jobs.unpicklable).exception(LONG))
    gone = pool.submit(jobs.fail, "exit").exception(LONG)  # As itself it would end the driver, silently.
    assert isinstance(gone, InfrastructureError) and "SystemExit" in str(gone)
    assert pool.submit(jobs.add, 1, 1).result(LONG) == 2
    with pytest.raises(UsageError, match="cannot be sent to a worker"):
        pool.submit(lambda state: 1)


def test_a_job_that_returns_in_a_fork_answers_once(pool: LocalPool) -> None:
    futures = [pool.submit(jobs.forking, i) for i in range(1, 30)]
    assert [future.result(timeout=30) for future in futures] == list(range(1, 30))


def test_a_dead_worker_costs_one_retry(pool: LocalPool, tmp_path: Path) -> None:
    others = [pool.submit(jobs.add, i, i) for i in range(50)]
    once = pool.submit(jobs.die, str(tmp_path / "once"), 1)
    more = [pool.submit(jobs.add, i, i) for i in range(50)]
    assert once.result(LONG) == "alive"
    assert [f.result(LONG) for f in others + more] == [2 * i for i in range(50)] * 2
    pids = (tmp_path / "once").read_text().split()
    assert len(pids) == 2 == len(set(pids))


def test_a_job_that_kills_twice_is_unmeasured_and_harms_no_other(pool: LocalPool, tmp_path: Path) -> None:
    futures = [pool.submit(jobs.die, str(tmp_path / f"log{i}"), 99) for i in range(3)]
    healthy = [pool.submit(jobs.add, i, 0) for i in range(20)]
    for i, future in enumerate(futures):
        error = future.exception(LONG)
        assert isinstance(error, InfrastructureError) and "SIGKILL" in str(error)
        assert len((tmp_path / f"log{i}").read_text().split()) == 2
    assert [f.result(LONG) for f in healthy] == list(range(20))


def test_past_the_deadline_the_worker_goes_with_everything_below_it(pool: LocalPool, tmp_path: Path) -> None:
    log = tmp_path / "children"
    error = pool.submit(jobs.hang_with_children, str(log), deadline_s=0.5).exception(LONG)
    assert isinstance(error, InfrastructureError) and "deadline of 0.5 s" in str(error)
    children = [int(line) for line in log.read_text().split()]
    assert len(children) == 4  # two attempts, two children each
    assert eventually(lambda: all(gone(pid) for pid in children))
    assert pool.submit(jobs.add, 2, 2).result(LONG) == 4


def test_the_pools_deadline_holds_unless_the_job_has_its_own() -> None:
    with LocalPool(1, jobs.setup, deadline_s=0.3) as pool:
        short = pool.submit(jobs.sleep, 100.0)
        longer = pool.submit(jobs.sleep, 0.6, deadline_s=LONG)
        assert isinstance(short.exception(LONG), InfrastructureError)
        assert longer.result(LONG) == 0.6


def test_a_death_is_seen_though_a_child_holds_the_connection(tmp_path: Path) -> None:
    log = tmp_path / "children"
    with LocalPool(1, jobs.setup) as pool:
        error = pool.submit(jobs.die_holding_connection, str(log)).exception(LONG)
        assert isinstance(error, InfrastructureError) and "exit code 7" in str(error)
        assert eventually(lambda: all(gone(int(pid)) for pid in log.read_text().split()))


def test_a_worker_killed_from_outside_is_replaced() -> None:
    with LocalPool(1, jobs.setup) as pool:
        first, _ = pool.submit(jobs.whoami).result(LONG)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: gone(first))
        second, calls = pool.submit(jobs.whoami).result(LONG)
        assert second != first and calls == 1


@pytest.mark.parametrize(
    ("setup", "kind", "text"),
    [
        (jobs.bad_setup, InfrastructureError, "no yardstick here"),
        (jobs.refused_setup, WallsError, "no wall stands"),
        (jobs.dying_setup, InfrastructureError, "SIGKILL while it was being set up"),
    ],
)
def test_a_failing_setup_is_an_error_not_a_hang(setup: Callable[[], object], kind: type[Exception], text: str) -> None:
    with LocalPool(2, setup) as pool:
        with pytest.raises(kind, match=text):
            pool.submit(jobs.add, 1, 1).result(LONG)
        with pytest.raises(kind, match=text):
            pool.submit(jobs.add, 1, 1).result(LONG)


def test_an_endless_setup_meets_its_deadline() -> None:
    with LocalPool(1, jobs.endless_setup, setup_deadline_s=0.3) as pool:
        error = pool.submit(jobs.add, 1, 1).exception(LONG)
        assert isinstance(error, InfrastructureError) and "set up" in str(error)


def test_close_is_bounded_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    note = str(tmp_path / "note")
    pool = LocalPool(2, partial(jobs.setup, note))
    pids = {f.result(LONG)[0] for f in [pool.submit(jobs.whoami) for _ in range(100)]}
    running = [pool.submit(jobs.sleep, 1000.0) for _ in range(2)]
    waiting = [pool.submit(jobs.sleep, 1000.0) for _ in range(5)]
    assert eventually(lambda: all(f.running() for f in running))
    pool.close()
    assert all(isinstance(f.exception(LONG), InfrastructureError) for f in running)
    assert all(f.cancelled() or isinstance(f.exception(LONG), InfrastructureError) for f in waiting)
    assert any(f.cancelled() for f in waiting)
    assert all(gone(pid) for pid in pids)
    assert set(os.listdir("/proc/self/fd")) == before
    assert not any(t.name == "coevo-pool" and t.is_alive() for t in threading.enumerate() if t is pool._thread)
    pool.close()
    with pytest.raises(UsageError, match="closed"):
        pool.submit(jobs.add, 1, 1)


def test_idle_workers_close_their_state(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with LocalPool(2, partial(jobs.setup, str(note))) as pool:
        wait([pool.submit(jobs.sleep, 0.2) for _ in range(2)])
    assert 1 <= len(set(note.read_text().splitlines())) == len(note.read_text().splitlines()) <= 2
    with InlinePool(partial(jobs.setup, str(note))) as pool:
        pool.submit(jobs.add, 1, 1)
    assert f"closed {os.getpid()}" in note.read_text()


def test_a_waiting_job_can_be_cancelled() -> None:
    with LocalPool(1, jobs.setup) as pool:
        running, waiting = pool.submit(jobs.sleep, 0.3), pool.submit(jobs.sleep, 1000.0)
        assert waiting.cancel()
        assert running.result(LONG) == 0.3
        assert pool.submit(jobs.add, 1, 2).result(LONG) == 3


def test_submitting_from_many_threads(pool: LocalPool) -> None:
    sums: list[int] = []

    def work() -> None:
        sums.append(sum(f.result(LONG) for f in [pool.submit(jobs.add, i, 0) for i in range(100)]))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sums == [4950] * 6


def test_workers_use_one_thread_each_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with LocalPool(1, jobs.setup) as pool:
        assert pool.submit(jobs.environment, "MKL_NUM_THREADS").result(LONG) == "1"
        assert pool.submit(jobs.environment, "OMP_NUM_THREADS").result(LONG) == "3"


DRIVER = textwrap.dedent(
    """
    import signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background
    sys.path[:0] = {path!r}
    from coevo.evaluation.pool import LocalPool
    from tests.evaluation import pool_jobs as jobs
    with LocalPool(2, jobs.setup) as pool:
        pids = set()
        while len(pids) < 2:
            pids |= {{f.result()[0] for f in [pool.submit(jobs.whoami) for _ in range(50)]}}
        busy = [pool.submit(jobs.sleep, 1000.0) for _ in range(2)]
        while not all(f.running() for f in busy):
            time.sleep(0.01)
        try:
            print(*pids, flush=True)
            time.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted", *[f.done() for f in busy], flush=True)
    print("closed", flush=True)
    """
)


@pytest.fixture
def driver():
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(path=[root])], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    yield process, pids
    process.kill()
    process.stdout.close()
    process.wait()


def test_workers_die_with_a_killed_driver(driver: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, pids = driver
    assert len(pids) == 2 and not any(gone(pid) for pid in pids)
    process.kill()
    process.wait()
    assert eventually(lambda: all(gone(pid) for pid in pids))


def test_ctrl_c_is_for_the_driver_only(driver: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, pids = driver
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=LONG)
    assert output.split() == ["interrupted", "False", "False", "closed"]
    assert all(gone(pid) for pid in pids)


def test_inline_errors() -> None:
    with pytest.raises(ValueError, match="yardstick"):
        InlinePool(jobs.bad_setup)
    with InlinePool(partial(jobs.setup_number, 7)) as pool:
        assert isinstance(pool.submit(jobs.fail, "x").exception(), KeyError)
    with pytest.raises(UsageError, match="closed"):
        pool.submit(jobs.add, 1, 1)


@pytest.mark.parametrize("spec", ["", "thread", "local:0", "local:x", "local:2@host", "inline:2", "inline@x", "ray:0"])
def test_a_bad_spec_is_named(spec: str) -> None:
    with pytest.raises(ConfigError, match="pool"):
        open_pool(spec, jobs.setup)
    with pytest.raises(UsageError, match="worker"):
        LocalPool(0, jobs.setup)


def test_a_ray_pool_without_ray_names_the_extra() -> None:
    if _has_ray():
        pytest.skip("ray is installed: its absence cannot be tested")
    with pytest.raises(ConfigError, match=r"coevo\[ray\]"):
        open_pool("ray:1", jobs.setup)


def test_the_ray_pool(tmp_path: Path) -> None:
    if not _has_ray():
        pytest.skip("needs ray: pip install 'coevo[ray]'")
    with open_pool("ray:2", jobs.setup, deadline_s=30.0) as pool:
        assert [f.result(LONG) for f in [pool.submit(jobs.add, i, 1) for i in range(20)]] == list(range(1, 21))
        assert isinstance(pool.submit(jobs.fail, "missing").exception(LONG), KeyError)
        assert pool.submit(jobs.die, str(tmp_path / "once"), 1).result(LONG) == "alive"
        assert isinstance(pool.submit(jobs.die, str(tmp_path / "always"), 99).exception(LONG), InfrastructureError)
        assert isinstance(pool.submit(jobs.sleep, 1000.0, deadline_s=0.5).exception(LONG), InfrastructureError)
        assert pool.submit(jobs.add, 1, 1).result(LONG) == 2
    with pytest.raises(ConfigError, match="needs 4096 CPUs"):
        open_pool("ray:4096", jobs.setup)
    with open_pool("ray:1", jobs.refused_setup) as pool, pytest.raises(WallsError, match="no wall stands"):
        pool.submit(jobs.add, 1, 1).result(LONG)


def _has_ray() -> bool:
    from importlib.util import find_spec

    return find_spec("ray") is not None
