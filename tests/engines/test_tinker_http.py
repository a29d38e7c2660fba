"""The way to a Tinker server on its bad days: it stalls, fails, answers nonsense, half a reply, or nothing."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from pydantic import SecretStr

from coevo.engines import tinker_http
from coevo.engines.tinker_http import Call, Connection, Fault, TinkerError
from tests.models.misbehaving import cuts, drips, hangs, resets, says, serving

QUEUED = says({"request_id": "7"})
PENDING = says({"type": "try_again", "request_id": "7", "queue_state": "active"})
DONE = says({"answer": 42})
STEP, LOOK = Call("/api/v1/optim_step", {"x": 1}, again=False), Call("/api/v1/forward", {"x": 1})


@pytest.fixture
def connect(monkeypatch):
    """Connections that try for long enough on a busy machine; whoever waits for the end of patience asks for a short one. A result is asked for anew after
    `poll_s`: no sooner than patience ends, unless a test says otherwise, since questions are counted."""
    monkeypatch.setattr(tinker_http, "BEAT_S", 0.1)
    opened = []

    def open_(
        url: str, patience_s: float = 10.0, deadline_s: float = 20.0, key: str = "", poll_s: float | None = None
    ) -> Connection:
        monkeypatch.setattr(tinker_http, "POLL_S", patience_s if poll_s is None else poll_s)
        secret = SecretStr(key) if key else None
        opened.append(Connection(url, key=secret, patience_s=patience_s, deadline_s=deadline_s))
        return opened[-1]

    yield open_
    for connection in opened:
        connection.close()


@pytest.mark.parametrize(
    "behaviours",
    [
        (QUEUED, DONE),
        (QUEUED, PENDING, PENDING, DONE),
        (QUEUED, says({"detail": "Timeout"}, status=408), DONE),
        (QUEUED, says({"detail": "busy"}, status=503), DONE),
        (QUEUED, says({"detail": "oops"}, status=500), DONE),
        (QUEUED, says(b"<html>"), DONE),
        (QUEUED, says([1, 2]), DONE),
        (QUEUED, resets, DONE),
        (QUEUED, cuts, DONE),
        (says({"detail": "busy"}, status=429, retry_after="0.01"), QUEUED, DONE),
    ],
)
@pytest.mark.parametrize("call", [STEP, LOOK], ids=["step", "look"])
def test_what_time_mends_is_waited_for(connect, behaviours, call):
    with serving(*behaviours) as server:
        assert connect(server.url).result(call) == {"answer": 42}
        assert len(server.seen) == len(behaviours)


@pytest.mark.parametrize("trouble", [resets, cuts, hangs, says({"detail": "oops"}, status=500), says(b"{")])
def test_a_step_that_may_have_been_taken_is_not_sent_again(connect, trouble):
    with serving(trouble, QUEUED, DONE) as server:
        with pytest.raises(TinkerError, match=r"weights are in doubt: resume from the last state"):
            connect(server.url, patience_s=0.4).result(STEP)
        assert len(server.seen) == 1
    with serving(trouble, QUEUED, DONE) as server:
        assert connect(server.url, patience_s=10 if trouble is not hangs else 1.0).result(LOOK) == {"answer": 42}


@pytest.mark.parametrize(
    ("behaviours", "fault", "message"),
    [
        ((says({"detail": "no key"}, status=401),), Fault.DENIED, r"Check the key in \$TINKER_API_KEY"),
        ((says({"detail": "Model not found"}, status=404),), Fault.GONE, "Model not found"),
        ((says({"detail": "big"}, status=413),), Fault.TOO_LARGE, "fewer or shorter rows"),
        (
            (says({"detail": [{"loc": ["body", "x"], "msg": "no number"}]}, status=422),),
            Fault.REFUSED,
            r"body\.x: no number",
        ),
        ((says({"detail": "no loss"}, status=400),), Fault.REFUSED, "no loss"),
        ((says({"hello": "there"}),), Fault.GARBAGE, "without request_id"),
        ((QUEUED, says({"error": "Maximum number", "category": "user"})), Fault.REFUSED, "Maximum number"),
        ((QUEUED, says({"detail": "Future not found"}, status=404)), Fault.GONE, "Future not found"),
        ((QUEUED, says({"detail": "adapter"}, status=400)), Fault.REFUSED, "adapter"),
        ((says("moved", status=302, location="http://elsewhere"),), Fault.REFUSED, "HTTP 302"),
    ],
)
def test_what_time_does_not_mend_is_told_at_once(connect, behaviours, fault, message):
    with serving(*behaviours) as server:
        with pytest.raises(TinkerError, match=message) as raised:
            connect(server.url).result(STEP)
        assert raised.value.fault is fault
        assert len(server.seen) == len(behaviours)
        assert server.url in str(raised.value)


@pytest.mark.parametrize("trouble", [hangs, drips, says({"detail": "oops"}, status=500), says(b"{"), cuts, resets])
def test_a_server_that_stays_bad_is_given_up(connect, trouble):
    with serving(QUEUED, trouble) as server, pytest.raises(TinkerError) as raised:
        connect(server.url, patience_s=0.4).result(STEP)
    assert raised.value.fault in (Fault.LOST, Fault.SERVER, Fault.GARBAGE)


def test_a_server_that_computes_for_long_is_not_given_up(connect):
    """It holds the first questions for longer than we ask, and answers heartbeats meanwhile."""

    def holds(handler, body):
        if "heartbeat" in handler.path:
            return says({})(handler, body)
        if "retrieve" not in handler.path:
            return QUEUED(handler, body)
        paths = [path for path, _, _ in handler.server.seen]
        if any(sum(word in path for path in paths) < 3 for word in ("retrieve", "heartbeat")):
            handler.server.released.wait(30)
        return DONE(handler, body)

    with serving(holds) as server:
        connection = connect(server.url, patience_s=2.0, poll_s=0.3)
        connection.keep_alive("session")
        assert connection.result(STEP) == {"answer": 42}
        assert sum("retrieve" in path for path, _, _ in server.seen) > 2
        assert sum("heartbeat" in path for path, _, _ in server.seen) > 2


def test_an_operation_has_a_deadline(connect):
    with serving(QUEUED, PENDING) as server, pytest.raises(TinkerError, match=r"no result within 0\.3 s") as raised:
        connect(server.url, deadline_s=0.3).result(STEP)
    assert raised.value.fault is Fault.DEADLINE


def test_nobody_there(connect):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(TinkerError, match=r"cannot connect.*Check that the server runs") as raised:
            connect(url, patience_s=0.4).result(STEP)
    assert raised.value.fault is Fault.UNREACHED


def test_many_at_once_arrive_in_any_order(connect):
    def echoes(handler, body):
        if "retrieve" in handler.path:
            time.sleep(0.2 - 0.01 * int(body["request_id"]))
            return says({"number": int(body["request_id"])})(handler, body)
        return says({"request_id": str(body["number"])})(handler, body)

    arrived, where = [], set()

    def each(i, reply):
        arrived.append((i, reply["number"]))
        where.add(threading.current_thread())

    with serving(echoes) as server:
        found = connect(server.url).results([Call("/asample", {"number": i}) for i in range(20)], each)
    assert [reply["number"] for reply in found] == list(range(20))
    assert sorted(arrived) == [(i, i) for i in range(20)]
    assert where == {threading.current_thread()}


def test_one_of_many_that_fails_ends_all(connect):
    def behave(handler, body):
        if "retrieve" not in handler.path:
            return says({"request_id": str(body["number"])})(handler, body)
        if body["request_id"] == "3":
            return says({"error": "no", "category": "user"})(handler, body)
        return hangs(handler, body)

    with serving(behave) as server, pytest.raises(TinkerError, match="no"):
        connect(server.url).results([Call("/asample", {"number": i}) for i in range(6)])


def test_the_key_is_sent_and_never_shown(connect):
    key = "tml-0123456789"
    with serving(says({"detail": f"key {key} is unknown"}, status=401)) as server:
        with pytest.raises(TinkerError) as raised:
            connect(server.url, key=key).post(STEP)
        assert server.seen[0][1]["x-api-key"] == key
    assert key not in str(raised.value) and "[key]" in str(raised.value)


def test_a_closed_connection_says_so(connect):
    with serving(DONE) as server:
        connection = connect(server.url)
        assert connection.post(STEP) == {"answer": 42}
        connection.close()
        connection.close()
        with pytest.raises(TinkerError, match="closed"):
            connection.post(STEP)
