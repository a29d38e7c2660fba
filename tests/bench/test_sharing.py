"""A model behind many searches: what is in a batch follows from what they do, and nobody waits for the dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevo.errors import ModelError, UsageError
from coevo.models import open_model
from coevo.models.scripted import ScriptedModel
from coevo.models.sharing import SharedModel, Traffic
from coevo.models.spec import parse_spec
from coevo.models.types import Completion, Message, Model, Request
from coevo.streams import stream
from tests.models.tiny import make_folder

WAIT_S = 30.0


class Batches(ScriptedModel):
    """A scripted model that remembers what it was asked together."""

    def __init__(self, delay_s: float = 0.0) -> None:
        super().__init__(lambda request: f"reply to {request.key}", spec=parse_spec("scripted:x,batch=64"))
        self.seen: list[list[str]] = []
        self._delay_s = delay_s

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        time.sleep(self._delay_s)
        self.seen.append([request.key for request in requests])
        return super().generate(requests)


def request(text: str, key: str, seed: int = 0) -> Request:
    return Request((Message("user", text),), max_tokens=12, seed=seed, key=key)


def conversations(model: Model, width: int, tasks: int, *, rounds: int = 3, jitter: int = 0) -> dict[int, list[str]]:
    """`tasks` conversations on `width` threads: each request quotes the reply before, as a search's does."""
    shared = SharedModel(model, width)
    waiting = iter(range(tasks))
    lock, replies = threading.Lock(), {}

    def crew() -> None:
        with shared.seat() as seat:
            while True:
                with lock:
                    task = next(waiting, None)
                if task is None:
                    return
                seat.order, text, said = task, f"task {task}", []
                for turn in range(rounds if task % 3 else rounds + 1):
                    time.sleep(stream(jitter, "pause", task, turn).random() * 0.01 if jitter else 0)
                    found = seat.generate([request(text, f"{task}.{turn}.{k}", seed=97 * task + k) for k in range(2)])
                    said += [one.text for one in found]
                    text = found[0].text[-40:] or "x"
                replies[task] = said

    with shared, ThreadPoolExecutor(width) as threads:
        for future in [threads.submit(crew) for _ in range(width)]:
            future.result(WAIT_S)
    return replies


def test_batches_are_the_same_whatever_the_threads_do() -> None:
    seen = []
    for jitter in (0, 1, 2):
        model = Batches()
        conversations(model, 4, 10, jitter=jitter)
        seen.append(model.seen)
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == [f"{task}.0.{k}" for task in range(4) for k in range(2)]
    assert sum(map(len, seen[0])) == 2 * sum(3 if task % 3 else 4 for task in range(10))
    assert len(seen[0]) <= 10


def test_replies_of_a_real_model_do_not_depend_on_how_many_ask(tmp_path: Path) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = open_model(f"local:{make_folder(tmp_path / 'tiny')},batch=64")
    try:
        found = {width: conversations(model, width, 12, rounds=2) for width in (1, 4, 16)}
        again = conversations(model, 4, 12, rounds=2, jitter=5)
    finally:
        model.close()
        torch.set_num_threads(before)
    assert again == found[4]  # Equal groupings: equal to the last bit.
    for width in (4, 16):
        same = sum(found[width][task] == found[1][task] for task in range(12))
        assert same >= 10  # Sums in another order may move a draw across a boundary, rarely.


def test_a_participant_that_fails_is_not_waited_for() -> None:
    shared = SharedModel(Batches(), 3)

    def works(task: int) -> str:
        with shared.seat() as seat:
            seat.order = task
            if task == 1:
                raise ValueError("this search broke")
            return seat.generate([request("a", f"{task}")])[0].text

    with shared, ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(works, task) for task in range(3)]
        assert futures[0].result(WAIT_S) == "reply to 0" and futures[2].result(WAIT_S) == "reply to 2"
        with pytest.raises(ValueError, match="broke"):
            futures[1].result(WAIT_S)
        assert shared.traffic.batches == 1 and shared.traffic.requests == 2


def test_a_seat_dropped_without_a_word_is_left() -> None:
    shared = SharedModel(Batches(), 2)
    kept = shared.seat()
    shared.seat()  # Collected at once.
    with shared, ThreadPoolExecutor(1) as threads:
        assert threads.submit(kept.generate, [request("a", "1")]).result(WAIT_S)[0].text == "reply to 1"


def test_cancelling_frees_all_who_wait_and_all_to_come() -> None:
    shared = SharedModel(Batches(), 3)
    seats = [shared.seat() for _ in range(2)]  # The third never comes.
    with shared, ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(seat.generate, [request("a", "1")]) for seat in seats]
        while len(shared._calls) < 2:
            time.sleep(0.001)
        shared.cancel("enough")
        for future in futures:
            with pytest.raises(ModelError, match="enough"):
                future.result(WAIT_S)
        with pytest.raises(ModelError, match="enough"):
            seats[0].generate([request("a", "2")])


def test_cancelling_does_not_wait_for_a_batch_under_way() -> None:
    shared = SharedModel(Batches(delay_s=0.5), 1)
    seat = shared.seat()
    with shared, ThreadPoolExecutor(1) as threads:
        future = threads.submit(seat.generate, [request("a", "1")])
        while not shared._flying:
            time.sleep(0.001)
        shared.cancel("enough")
        with pytest.raises(ModelError, match="enough"):
            future.result(WAIT_S)


def test_what_the_model_raises_reaches_everyone() -> None:
    class Down(Batches):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            raise RuntimeError("out of luck")

    shared = SharedModel(Down(), 2)
    seats = [shared.seat(), shared.seat()]
    with shared, ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(seat.generate, [request("a", "1")]) for seat in seats]:
            with pytest.raises(ModelError, match="RuntimeError: out of luck"):
                future.result(WAIT_S)


def test_patience_ends_the_wait_for_one_that_hangs() -> None:
    shared = SharedModel(Batches(), 2, patience_s=0.05)
    seat, hangs = shared.seat(), shared.seat()
    with shared, ThreadPoolExecutor(1) as threads:
        assert threads.submit(seat.generate, [request("a", "1")]).result(WAIT_S)[0].text == "reply to 1"
        assert shared.traffic.hurried == 1
    hangs.leave()


def test_seats_are_counted() -> None:
    with pytest.raises(UsageError, match="1 participant or more, not 0"):
        SharedModel(Batches(), 0)
    shared = SharedModel(Batches(), 1)
    with shared:
        with shared.seat() as seat:
            assert seat.generate([]) == []
            with pytest.raises(UsageError, match="every seat"):
                shared.seat()
        seat.leave()
        with pytest.raises(ModelError, match="was left"):
            seat.generate([request("a", "1")])
        assert shared.traffic == Traffic()
