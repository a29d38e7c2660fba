"""The client against a server that misbehaves. Nothing is mocked: sockets, bytes and clocks are real."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from coevo.errors import ConfigError, ModelError
from coevo.models import Message, Request, StopReason, open_model, pacing
from coevo.models.openai import OpenAIModel
from coevo.models.spec import parse_spec
from coevo.models.tokens import chat_tokens, estimate_tokens
from tests.models import misbehaving as bad

KEY = "sk-test-5ca1ab1e/deadbeef+0123456789"
ASK = Request((Message("system", "Be brief."), Message("user", "Say hello.")), max_tokens=50, seed=7, key="step-0")


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    monkeypatch.setattr(pacing, "FIRST_WAIT", 0.01)


def client(server: bad.Server, options: str = "", *, key: str = "", path: str = "/v1") -> OpenAIModel:
    environ = {"OPENAI_API_KEY": key} if key else {}
    model = open_model(f"openai:tiny@{server.url}{path}{options and ',' + options}", environ=environ)
    assert isinstance(model, OpenAIModel)
    return model


def ask(server: bad.Server, options: str = "", request: Request = ASK):
    with client(server, options) as model:
        return model.generate([request])[0]


def test_a_good_reply_with_its_tokens_and_its_price():
    with bad.serving(bad.ok("hi")) as server:
        reply = ask(server, "price_in=2,price_out=10")
    assert (reply.text, reply.stop_reason, reply.model) == ("hi", StopReason.STOP, "tiny")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.attempts, reply.estimated) == (11, 7, 1, False)
    assert reply.cost_usd == pytest.approx((11 * 2 + 7 * 10) / 1e6)


def test_what_is_sent():
    with bad.serving(bad.ok()) as server:
        options = 'extra={"reasoning_effort":"low","chat_template_kwargs":{"a":[1,2]}}'
        request = Request(ASK.messages, 9, 0.5, 0.9, ("END", "\n\n"), seed=2**63 + 5, key="k")
        ask(server, options, request)
        path, headers, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert "authorization" not in {name.lower() for name in headers}
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]
    assert (body["model"], body["max_tokens"], body["temperature"], body["top_p"]) == ("tiny", 9, 0.5, 0.9)
    assert body["stop"] == ["END", "\n\n"] and 0 <= body["seed"] < 2**31
    assert (body["reasoning_effort"], body["chat_template_kwargs"]) == ("low", {"a": [1, 2]})


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "//v1//", "/v1/v1", "/v1/chat/completions"])
def test_every_way_to_write_the_base_url(path):
    with bad.serving(bad.ok()) as server:
        with client(server, path=path) as model:
            assert model.generate([ASK])[0].text == "hello"
        assert server.seen[0][0] == "/v1/chat/completions"


def test_other_paths_and_queries_are_kept():
    with bad.serving(bad.ok()) as server:
        with client(server, path="/openai/deployments/x?api-version=2") as model:
            model.generate([ASK])
        assert server.seen[0][0] == "/openai/deployments/x/chat/completions?api-version=2"


def test_order_is_kept():
    def echo(handler, body):
        bad.ok(body["messages"][-1]["content"])(handler, body)

    with bad.serving(echo) as server, client(server) as model:
        requests = [Request((Message("user", str(i)),), key=str(i)) for i in range(20)]
        assert [reply.text for reply in model.generate(requests)] == [str(i) for i in range(20)]


@pytest.mark.parametrize(
    "first",
    [
        bad.error(500),
        bad.error(503),
        bad.error(529),
        bad.error(408),
        bad.resets,
        bad.cuts,
        bad.says(b'{"choices": [{"message": {"con'),
        bad.says({"choices": []}),
        bad.says({"choices": [{}]}),
        bad.says({"id": "x"}),
        bad.says([1, 2]),
        bad.says(b"<html>gateway</html>", kind="text/html"),
        bad.says(b"", kind="text/plain"),
        bad.says({"error": {"message": "upstream died", "code": 502}}),
        bad.ok(None),
        bad.ok("half", finish="error"),
        bad.says(b"\xff\xfe not json"),
        bad.says(b"[" * 100_000),
    ],
)
def test_what_time_may_mend_is_tried_again(first):
    with bad.serving(first, bad.ok("fine")) as server:
        reply = ask(server)
    assert (reply.text, reply.attempts) == ("fine", 2)


def test_retries_are_bounded_and_the_failure_is_data():
    with bad.serving(bad.error(500, "kaputt")) as server:
        reply = ask(server, "retries=2")
        assert len(server.seen) == 3
    assert (reply.stop_reason, reply.attempts, reply.text) == (StopReason.FAILED, 3, "")
    assert "3 attempts" in reply.error and "HTTP 500: kaputt" in reply.error
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd) == (0, 0, 0.0)


def test_retry_after_holds_the_next_attempt_back():
    times = []

    def busy(handler, body):
        times.append(datetime.now(UTC))
        bad.error(429, "slow down", headers={"retry_after": "1"})(handler, body)

    def good(handler, body):
        times.append(datetime.now(UTC))
        bad.ok()(handler, body)

    with bad.serving(busy, good) as server:
        assert ask(server).text == "hello"
    assert times[1] - times[0] >= timedelta(seconds=1)


def test_retry_after_as_seconds_milliseconds_date_and_nonsense():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert pacing.retry_after({"retry-after": "3"}) == 3
    assert pacing.retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert pacing.retry_after({"retry-after": format_datetime(now + timedelta(seconds=40))}, now) == 40
    assert pacing.retry_after({"retry-after": format_datetime(now - timedelta(seconds=40))}, now) == 0
    assert pacing.retry_after({"retry-after": "1e9"}) == pacing.LONGEST_ASKED_WAIT
    for nonsense in ("soon", "-3", "nan", "inf", ""):
        assert pacing.retry_after({"retry-after": nonsense}) is None
    assert pacing.retry_after({}) is None


@pytest.mark.parametrize("behaviour", [bad.hangs, bad.drips])
def test_the_deadline_covers_the_whole_attempt(behaviour):
    with bad.serving(behaviour, bad.ok("late but fine")) as server:
        reply = ask(server, "timeout=1.5")
    assert (reply.text, reply.attempts) == ("late but fine", 2)
    assert reply.estimated  # the attempt that timed out may have been billed


def test_attempts_that_may_have_been_billed_are_charged_at_their_upper_bound():
    upper = chat_tokens(estimate_tokens, ASK.messages)
    with bad.serving(bad.cuts, bad.ok()) as server:
        reply = ask(server, "price_in=1,price_out=1")
    assert (reply.prompt_tokens, reply.completion_tokens) == (11 + upper, 7 + 50)
    with bad.serving(bad.cuts) as server:
        failed = ask(server, "price_in=1,price_out=1,retries=9")
    assert (failed.stop_reason, failed.attempts) == (StopReason.FAILED, 2)  # money is not thrown after money
    assert failed.cost_usd == pytest.approx(2 * (upper + 50) / 1e6)


def test_a_failed_attempt_with_usage_is_charged_what_it_says():
    with bad.serving(bad.ok(None), bad.ok()) as server:
        reply = ask(server, "price_in=1,price_out=1")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.estimated) == (22, 14, False)


def test_missing_or_nonsensical_usage_is_estimated_and_says_so():
    huge = {"usage": {"prompt_tokens": 10**400, "completion_tokens": 1}}
    for usage in ({}, {"usage": None}, {"usage": {"prompt_tokens": -1, "completion_tokens": "x"}}, huge):
        with bad.serving(bad.says({**bad.completion("def f(): pass", usage=False), **usage})) as server:
            reply = ask(server)
        assert reply.estimated
        assert reply.prompt_tokens == chat_tokens(estimate_tokens, ASK.messages)
        assert reply.completion_tokens == estimate_tokens("def f(): pass")


@pytest.mark.parametrize(
    ("behaviour", "stop_reason", "text"),
    [
        (bad.ok("cut", finish="length"), StopReason.LENGTH, "cut"),
        (bad.ok(None, finish="length", reasoning_content="hmm"), StopReason.LENGTH, ""),
        (bad.ok(None, refusal="I cannot"), StopReason.REFUSAL, "I cannot"),
        (bad.ok("par", finish="content_filter"), StopReason.REFUSAL, "par"),
        (bad.error(400, "filtered", code="content_filter"), StopReason.REFUSAL, ""),
        (bad.error(403, "your input was flagged by moderation"), StopReason.REFUSAL, ""),
        (bad.ok("", finish="stop"), StopReason.STOP, ""),
        (bad.ok("a", finish=None), StopReason.STOP, "a"),
        (bad.ok(None, reasoning="thought"), StopReason.STOP, ""),
        (bad.says({"choices": [{"message": {"content": [{"type": "text", "text": "p1"}, {"type": "text", "text": "p2"}]}}]}), StopReason.STOP, "p1p2"),
    ],
)  # fmt: skip
def test_outcomes_that_are_not_errors(behaviour, stop_reason, text):
    with bad.serving(behaviour) as server:
        reply = ask(server)
        assert len(server.seen) == 1
    assert (reply.stop_reason, reply.text) == (stop_reason, text)


def test_reasoning_is_kept_apart_from_the_text():
    with bad.serving(bad.ok("answer", reasoning_content="because")) as server:
        reply = ask(server)
    assert (reply.text, reply.reasoning) == ("answer", "because")


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_cannot_succeed_fails_alone_and_at_once(status):
    with bad.serving(bad.error(status, "maximum context length is 4096 tokens"), bad.ok()) as server:
        with client(server) as model:
            first, second = model.generate([ASK])[0], model.generate([ASK])[0]
        assert len(server.seen) == 2
    assert (first.stop_reason, first.attempts) == (StopReason.FAILED, 1)
    assert "4096" in first.error and second.text == "hello"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (bad.error(401, "bad key"), "key in $OPENAI_API_KEY"),
        (bad.error(402, "pay"), "credit"),
        (bad.error(403, "no"), "may use 'tiny'"),
        (bad.error(404, "no such model"), "model's name ('tiny')"),
        (bad.error(429, "quota", code="insufficient_quota"), "credit"),
        (bad.says(b"", status=307, location="http://elsewhere/v1"), "moved to http://elsewhere/v1"),
    ],
)
def test_an_endpoint_that_refuses_everything_raises_at_once_and_stays_shut(behaviour, words):
    with bad.serving(behaviour) as server, client(server) as model:
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                model.generate([ASK])
            assert words in str(caught.value) and server.url in str(caught.value)
        assert len(server.seen) == 1


def test_a_404_after_good_replies_costs_one_request():
    with bad.serving(bad.ok(), bad.error(404, "odd"), bad.ok()) as server, client(server) as model:
        reasons = [model.generate([ASK])[0].stop_reason for _ in range(3)]
    assert reasons == [StopReason.STOP, StopReason.FAILED, StopReason.STOP]


def test_the_breaker_opens_after_failures_in_a_row_and_names_the_last_cause():
    with bad.serving(bad.error(500, "always")) as server, client(server, "retries=1,give_up=3") as model:
        assert [model.generate([ASK])[0].stop_reason for _ in range(2)] == [StopReason.FAILED] * 2
        with pytest.raises(ModelError, match=r"3 requests in a row failed.*HTTP 500: always"):
            model.generate([ASK])
        with pytest.raises(ModelError):
            model.generate([ASK])
        assert len(server.seen) == 6


def test_one_reply_closes_the_count_again():
    with (
        bad.serving(bad.error(500), bad.ok(), bad.error(500), bad.ok()) as server,
        client(server, "retries=0,give_up=2") as model,
    ):
        reasons = [model.generate([ASK])[0].stop_reason for _ in range(4)]
    assert reasons == [StopReason.FAILED, StopReason.STOP] * 2


def test_nobody_listening():
    with bad.serving(bad.ok()) as server:
        url = server.url
    model = open_model(f"openai:tiny@{url},retries=1,give_up=2", environ={})
    reply = model.generate([ASK])[0]
    assert (reply.stop_reason, reply.cost_usd, reply.prompt_tokens) == (StopReason.FAILED, 0, 0)
    assert "cannot connect" in reply.error
    with pytest.raises(ModelError, match="cannot connect"):
        model.generate([ASK])
    model.close()


def test_unsupported_parameters_are_dropped_once_and_remembered():
    with bad.serving(bad.refuses("seed", "top_p")) as server, client(server, "retries=0") as model:
        assert [reply.text for reply in model.generate([ASK, ASK])] == ["hello"] * 2
        assert model.dropped == ("seed", "top_p")
        before = len(server.seen)
        reply = model.generate([ASK])[0]
        assert len(server.seen) == before + 1 and reply.attempts == 1
        assert not {"seed", "top_p"} & server.seen[-1][2].keys() and "temperature" in server.seen[-1][2]


@pytest.mark.parametrize(
    "behaviour",
    [
        bad.refuses("max_tokens", message="Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."),
        lambda h, b: (
            bad.says(
                {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs are not permitted"}]}, status=422
            )(h, b)
            if "max_tokens" in b
            else bad.ok()(h, b)
        ),
    ],
)
def test_the_other_name_of_the_length(behaviour):
    with bad.serving(behaviour) as server, client(server) as model:
        assert model.generate([ASK])[0].text == "hello"
        assert server.seen[-1][2]["max_completion_tokens"] == 50 and "max_tokens" not in server.seen[-1][2]
        assert model.dropped == ()


def test_a_server_that_refuses_every_parameter_does_not_loop():
    def never(handler, body):
        names = ", ".join(body)
        bad.error(400, f"Unsupported parameter: {names}")(handler, body)

    with bad.serving(never) as server:
        reply = ask(server)
        assert reply.stop_reason is StopReason.FAILED and len(server.seen) <= 8


def test_concurrency_is_bounded_over_all_threads():
    with bad.serving(bad.slow(0.03)) as server, client(server, "concurrency=3") as model, ThreadPoolExecutor(8) as pool:
        replies = [r for part in pool.map(lambda _: model.generate([ASK, ASK, ASK]), range(8)) for r in part]
    assert len(replies) == 24 and {r.stop_reason for r in replies} == {StopReason.STOP}
    assert server.most == 3


def test_close_ends_what_is_in_flight_and_leaves_no_thread():
    before = threading.active_count()
    with bad.serving(bad.hangs) as server:
        model = client(server)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(model.generate, [ASK])
            while not server.seen:
                time.sleep(0.01)
            model.close()
            with pytest.raises(ModelError, match="closed"):
                future.result(timeout=10)
        model.close()
        with pytest.raises(ModelError, match="closed"):
            model.generate([ASK])
        server.released.set()
    assert threading.active_count() <= before


def test_the_key_travels_in_the_header_and_nowhere_else(caplog):
    caplog.set_level(logging.DEBUG)
    echo = bad.error(500, f"who is {KEY}?")
    text = bad.ok(f"your key is {KEY}", reasoning_content=f"{KEY} it is")
    with bad.serving(
        echo, bad.says(f"<html>{KEY}</html>".encode(), kind="text/html"), text, bad.error(401, f"Incorrect key {KEY}")
    ) as server:
        with client(server, key=KEY) as model:
            reply = model.generate([ASK])[0]
            with pytest.raises(ModelError) as caught:
                model.generate([ASK])
            shown = [
                repr(model),
                str(model.spec),
                model.spec.model_dump_json(),
                repr(vars(model)),
                repr(reply),
                str(caught.value),
            ]
        assert server.seen[0][1]["authorization"] == f"Bearer {KEY}"
    assert reply.text == "your key is [key]" and "[key]" in str(caught.value)
    assert KEY not in "\n".join([*shown, caplog.text])


def test_the_key_is_not_in_a_failure_either():
    with bad.serving(bad.error(400, f"{KEY} is wrong")) as server, client(server, key=KEY) as model:
        assert KEY not in repr(model.generate([ASK])[0])


def test_keys_come_from_the_environment_by_name():
    with bad.serving(bad.ok()) as server:
        model = open_model(
            f"openai:tiny@{server.url},key_env=MY_KEY", environ={"MY_KEY": KEY + "\n", "OPENAI_API_KEY": "other"}
        )
        model.generate([ASK])
        model.close()
        assert server.seen[0][1]["authorization"] == f"Bearer {KEY}"
    with pytest.raises(ConfigError, match="MY_KEY is not set; export MY_KEY"):
        open_model("openai:tiny@http://127.0.0.1:1,key_env=MY_KEY", environ={})
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        open_model("openai:gpt-x", environ={})
    with pytest.raises(ConfigError, match="no HTTP header") as caught:
        open_model("openai:gpt-x", environ={"OPENAI_API_KEY": "sk-schlüssel"})
    assert "schl" not in str(caught.value)


def test_where_the_base_url_comes_from():
    environ = {"OPENAI_API_KEY": KEY}
    hosted = OpenAIModel(parse_spec("openai:m"), environ=environ)
    assert hosted.spec.base_url == "https://api.openai.com/v1" and hosted.billable and not hosted.priced
    moved = OpenAIModel(parse_spec("openai:m"), environ={**environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert moved.spec.base_url == "http://127.0.0.1:9/v1" and not moved.billable and moved.priced
    with pytest.raises(ConfigError, match="user name or password") as caught:
        OpenAIModel(parse_spec("openai:m"), environ={**environ, "OPENAI_BASE_URL": "http://u:hunter2@h/v1"})
    assert "hunter2" not in str(caught.value)
