"""The Tinker engine against our own server, over HTTP, with a real model behind it: the same numbers as the torch engine in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from coevo.engines import tinker_http, tinker_server
from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig, LoraConfig
from coevo.engines.tinker import TinkerEngine
from coevo.engines.tinker_server import TinkerServer, serve, serving
from coevo.engines.tinker_service import Service
from coevo.engines.types import LossConfig, OptimConfig, Row
from coevo.errors import ConfigError, ModelError, StoreError
from tests.engines.conftest import prompts_of, rows_of, shifted

LOSSES = ("importance_sampling", "ppo", "dapo", "grpo", "dr_grpo", "gspo", "cispo", "cross_entropy")
FIELDS = ("tokens", "rows", "ratio_mean", "ratio_max", "clipped_low", "clipped_high", "logprob_gap_mean", "kl")
STEP = OptimConfig(max_grad_norm=1.0)


@pytest.fixture(scope="module")
def server(base, tmp_path_factory):
    with serve(base, EngineConfig(device="cpu"), folder=tmp_path_factory.mktemp("served"), environ={}) as found:
        yield found


@pytest.fixture
def remote(server, base, tmp_path):
    """Opens engines on the server; all are closed at the end."""
    engines = []

    def open_(url: str = "", name: str = "client", environ=None, base=base, **settings) -> TinkerEngine:
        from coevo.engines.tinker import open_tinker

        config = EngineConfig(name="tinker", url=url or server.url, **{"patience_s": 5, **settings})
        engines.append(open_tinker(str(base), config, folder=tmp_path / name, environ=environ or {}))
        return engines[-1]

    yield open_
    for engine in engines:
        engine.close()


def logprobs_of(engine, rows: list[Row], of: str = "policy") -> np.ndarray:
    found = engine.logprobs([r.token_ids for r in rows], prompt_tokens=[r.prompt_tokens for r in rows], of=of)
    return np.concatenate([np.array(one) for one in found])


def test_the_config_opens_it(server, base, tmp_path):
    engine = open_engine(base, EngineConfig(name="tinker", url=server.url), folder=tmp_path)
    assert isinstance(engine, TinkerEngine)
    assert engine.capabilities.max_tokens == 256 and not engine.capabilities.entropy
    engine.close()


def test_samples_are_those_of_the_engine_behind_it(remote, opened):
    far, near = remote(), opened()
    prompts = prompts_of(near)
    arrived = {}
    found = far.sample(prompts, each=lambda i, one: arrived.setdefault(i, one))
    expected = near.sample(prompts)
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    assert [one.stop_reason for one in found] == [one.stop_reason for one in expected]
    assert np.allclose(
        np.concatenate([o.logprobs for o in found]), np.concatenate([o.logprobs for o in expected]), atol=1e-5
    )
    assert [arrived[i] for i in range(len(prompts))] == found


@pytest.mark.parametrize("kl", [0.0, 0.2])
@pytest.mark.parametrize("name", LOSSES)
def test_a_step_is_the_step_of_the_engine_behind_it(remote, opened, name, kl):
    far, near = remote(), opened()
    rows = shifted(rows_of(near))
    loss = LossConfig(name=name, kl=kl, length=12, ratio_cap=1.5 if kl else None)
    for _ in range(2):
        mine, theirs = far.forward_backward(rows, loss), near.forward_backward(rows, loss)
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-4, abs=1e-5)
        for field in FIELDS:
            if (expected := getattr(theirs, field)) is None:
                assert getattr(mine, field) is None
            else:
                assert getattr(mine, field) == pytest.approx(expected, rel=1e-3, abs=1e-5), field
        mine, theirs = far.optim_step(1e-3, STEP), near.optim_step(1e-3, STEP)
        assert (mine.version, mine.applied) == (theirs.version, theirs.applied)
        assert mine.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-3)
        assert mine.update_ratio == pytest.approx(theirs.update_ratio, rel=1e-3)
    assert np.allclose(logprobs_of(far, rows), logprobs_of(near, rows), atol=1e-3)
    assert not np.allclose(logprobs_of(far, rows), logprobs_of(near, rows, of="base"), atol=1e-2)


def test_feedback_tokens_and_dead_groups_stay_out_of_the_gradient(remote, opened):
    far, near = remote(), opened()
    rows = rows_of(near)
    masked = []
    for i, row in enumerate(rows):
        keep = tuple(j % 3 != 1 for j in range(len(row.trained)))
        values = tuple(0.0 if i % 4 == 0 else a for a in row.advantages)
        known = tuple(p if k else 0.0 for p, k in zip(row.logprobs, keep, strict=True))
        masked.append(Row(row.token_ids, row.prompt_tokens, values, keep, known))
    for engine in (far, near):
        stats = engine.forward_backward(masked, LossConfig(name="dapo"))
        assert stats.tokens == sum(sum(row.trained) for row in masked) and stats.logprob_gap_max < 1e-4
        engine.optim_step(1e-3, STEP)
    assert np.allclose(logprobs_of(far, rows), logprobs_of(near, rows), atol=1e-4)


def test_nothing_to_learn_is_no_step(remote, opened):
    far, near = remote(), opened()
    rows = [Row(r.token_ids, r.prompt_tokens, (0.0,) * len(r.trained), r.trained, r.logprobs) for r in rows_of(near)]
    for engine in (far, near):
        assert engine.forward_backward(rows, LossConfig()).tokens > 0
        assert not engine.optim_step(1e-2, STEP).applied
    assert far.version == near.version == 0


def shortened(row: Row, by: int) -> Row:
    end = -by or None
    return Row(row.token_ids[:end], row.prompt_tokens, row.advantages[:end], row.trained[:end], row.logprobs[:end])


def test_a_server_that_averages_gets_scaled_advantages(remote, opened, base, tmp_path):
    """Long and short rows weigh as in the sum, whether the server says how it adds up or it has to be measured."""

    class Unsaid(Service):
        def get(self, path):
            return {"name": "Tinker API Mock"} if path == "/" else super().get(path)

    near = opened()
    rows = rows_of(near)
    rows = [shortened(row, i) for i, row in enumerate(rows[:8])]
    near.forward_backward(rows, LossConfig(name="dapo"))
    expected = near.optim_step(1e-3, STEP)
    for kind in (Service, Unsaid):
        service = kind(
            lambda lora, seed, folder: open_engine(
                base, EngineConfig(device="cpu", lora=lora), folder=folder, seed=seed
            ),
            base=str(base),
            folder=tmp_path / kind.__name__,
            context=256,
            averaged=True,
        )
        with TinkerServer(service) as server:
            far = remote(server.url, name=kind.__name__)
            assert far.capabilities.details["reduction"] == "sequence_mean"
            for name in ("dapo", "cross_entropy"):
                far.forward_backward(rows, LossConfig(name=name))
                with pytest.raises(ConfigError, match=r"one forward_backward"):
                    far.forward_backward(rows, LossConfig(name=name))
                found = far.optim_step(1e-3 if name == "dapo" else 0.0, STEP)
                if name == "dapo":
                    assert found.grad_norm == pytest.approx(expected.grad_norm, rel=1e-3)
                    assert np.allclose(logprobs_of(far, rows), logprobs_of(near, rows), atol=1e-4)
            far.close()


def test_states_are_kept_and_branches_part(remote, opened):
    far, near = remote(lora=LoraConfig(rank=4)), opened(lora=LoraConfig(rank=4))
    rows = rows_of(near)
    for engine in (far, near):
        engine.forward_backward(rows, LossConfig())
        engine.optim_step(1e-2, STEP)
        engine.where = engine.save("one")
        engine.forward_backward(rows, LossConfig())
        engine.optim_step(1e-2, STEP)
    after = logprobs_of(far, rows)
    assert np.allclose(after, logprobs_of(near, rows), atol=1e-4)

    other = remote(lora=LoraConfig(rank=4), name="other")
    other.load(far.where, with_optimizer=True)  # the address is enough
    far.load("one", with_optimizer=True)
    assert far.version == other.version == 1
    for engine, lr in ((far, 1e-2), (other, 3e-2)):
        engine.forward_backward(rows, LossConfig())
        engine.optim_step(lr, STEP)
    assert np.allclose(logprobs_of(far, rows), after, atol=1e-5)
    assert not np.allclose(logprobs_of(other, rows), after, atol=1e-3)
    assert np.allclose(logprobs_of(other, rows, of=far.where), logprobs_of(near, rows, of="one"), atol=1e-4)

    for engine in (far, near):  # a new optimizer is a new optimizer
        engine.load("one", with_optimizer=False)
        engine.forward_backward(rows, LossConfig())
        engine.optim_step(1e-2, STEP)
    assert np.allclose(logprobs_of(far, rows), logprobs_of(near, rows), atol=1e-4)
    with pytest.raises(StoreError, match=r"no state 'two'.* one"):
        far.load("two", with_optimizer=True)


def start(base: Path, folder: Path) -> tuple[subprocess.Popen, str]:
    """A server in a process of its own, which can be killed."""
    command = [
        sys.executable,
        "-m",
        "coevo.engines.tinker_server",
        str(base),
        "--folder",
        str(folder),
        "--threads",
        "1",
    ]
    environ = {**os.environ, "TINKER_API_KEY": "not-a-secret"}
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environ)
    line = process.stdout.readline() if process.stdout else ""
    assert line.startswith("url: "), line
    return process, line.split()[1]


def test_a_killed_server_is_told_and_its_successor_goes_on(remote, opened, base, tmp_path):
    near = opened()
    rows = rows_of(near)
    process, url = start(base, tmp_path / "served")
    try:
        far = remote(url, environ={"TINKER_API_KEY": "not-a-secret"}, patience_s=1)
        for step in (1, 2):
            for engine in (far, near):
                engine.forward_backward(rows, LossConfig())
                engine.optim_step(1e-3, STEP)
            if step == 1:
                far.save("step-1")
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(ModelError, match=r"cannot connect"):
            far.forward_backward(rows, LossConfig())
        port = int(url.rpartition(":")[2])
        with serve(base, EngineConfig(device="cpu"), folder=tmp_path / "served", port=port, environ={}):
            with pytest.raises(ModelError, match=r"load that state"):
                far.forward_backward(rows, LossConfig())
            far.load("step-1", with_optimizer=True)
            assert far.version == 1
            far.forward_backward(rows, LossConfig())
            far.optim_step(1e-3, STEP)
            assert np.allclose(logprobs_of(far, rows), logprobs_of(near, rows), atol=1e-4)
            assert far.sample(prompts_of(near, groups=1))[0].token_ids
            far.close()
    finally:
        process.kill()
        process.wait()


def test_what_the_protocol_has_not_is_refused(remote, opened):
    far = remote()
    rows = rows_of(opened(), groups=1)
    with pytest.raises(ConfigError, match=r"entropies"):
        far.forward_backward(rows, LossConfig(entropy=0.01))
    with pytest.raises(ConfigError, match=r"temperature 1, not 0.7"):
        far.forward_backward(rows_of(opened(), groups=1, temperature=0.7), LossConfig())
    with pytest.raises(ConfigError, match=r"temperature 1"):
        far.logprobs([rows[0].token_ids], prompt_tokens=[1], temperature=2.0)
    with pytest.raises(ConfigError, match=r"loss.length"):
        far.forward_backward(rows, LossConfig(name="dr_grpo"))
    with pytest.raises(ConfigError, match=r"300 tokens and the context is 256"):
        far.logprobs([(5,) * 300], prompt_tokens=[1])
    far.forward_backward(rows, LossConfig())
    with pytest.raises(ConfigError, match=r"gradient is held"):
        far.save("now")


def test_who_may_use_a_server(remote, base, tmp_path):
    def make(lora, seed, folder):
        return open_engine(base, EngineConfig(device="cpu", lora=lora), folder=folder, seed=seed)

    with pytest.raises(ConfigError, match=r"set .TINKER_API_KEY"):
        serving(make, base="tiny", folder=tmp_path, context=256, host="0.0.0.0")
    with serving(make, base="a/tiny", folder=tmp_path / "s", context=256, key="tml-secret-key", slots=1) as server:
        for environ in ({}, {"TINKER_API_KEY": "tml-wrong-key"}):
            with pytest.raises(ModelError, match=r"HTTP 401.*Check the key in \$TINKER_API_KEY") as raised:
                remote(server.url, environ=environ)
            assert "tml-wrong-key" not in str(raised.value)
        right = {"TINKER_API_KEY": "tml-secret-key"}
        with pytest.raises(ConfigError, match=r"no base model .*It has: a/tiny"):
            remote(server.url, environ=right)
        link = tmp_path / "tiny"
        link.symlink_to(base)
        first = remote(server.url, environ=right, base=link)
        with pytest.raises(ModelError, match=r"Maximum number of models .1. reached.*Close other clients"):
            remote(server.url, environ=right, base=link)
        first.close()
        remote(server.url, environ=right, base=link)
        with pytest.raises(ConfigError, match=r"cannot listen"):
            serving(make, base="tiny", folder=tmp_path, context=256, port=int(server.url.rpartition(":")[2]))


def test_a_silent_client_loses_its_models(remote, base, tmp_path, monkeypatch):
    monkeypatch.setattr(tinker_http, "BEAT_S", 60.0)
    with serve(base, EngineConfig(device="cpu"), folder=tmp_path / "s", session_s=0.2, environ={}) as server:
        far = remote(server.url)
        rows = [Row((5, 6, 7), 1, (1.0, 1.0), (True, True), (-1.0, -1.0))]
        deadline = time.monotonic() + 30
        while httpx.post(f"{server.url}/api/v1/get_info", json={"model_id": far._model.id}).status_code == 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        with pytest.raises(ModelError, match=r"its session has ended.*load that state"):
            far.forward_backward(rows, LossConfig())
        assert httpx.get(server.url + "/api/v1/healthz").json() == {"status": "ok"}


def test_a_batch_that_is_too_large_is_told(remote, opened, monkeypatch):
    far = remote()
    rows = rows_of(opened())
    monkeypatch.setattr(tinker_server, "MAX_BODY", 2_000)
    with pytest.raises(ModelError, match=r"413.*fewer or shorter rows"):
        far.forward_backward(rows, LossConfig())


def test_a_repeated_request_is_carried_out_once(remote, server):
    far = remote()
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [6, 7, 8], "dtype": "int64"},
            "weights": {"data": [1.0, 1.0, 1.0], "dtype": "float32"},
        },
    }
    model = far._model.id
    body = {"model_id": model, "seq_id": 1, "forward_backward_input": {"data": [datum], "loss_fn": "cross_entropy"}}
    step = {"model_id": model, "adam_params": {"learning_rate": 0.0}}

    def ask(path, body):
        future = httpx.post(f"{server.url}/api/v1/{path}", json=body).json()
        return future, httpx.post(
            f"{server.url}/api/v1/retrieve_future", json={"request_id": future["request_id"]}
        ).json()

    assert ask("forward_backward", body) == ask("forward_backward", body)
    once = ask("optim_step", step)[1]["metrics"]["grad_norm"]
    ask("forward_backward", {**body, "seq_id": 2})
    ask("forward_backward", {**body, "seq_id": 3})
    assert ask("optim_step", step)[1]["metrics"]["grad_norm"] == pytest.approx(2 * once, rel=1e-4)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("nothing", {}, 404),
        ("create_session", [], 422),
        ("create_model", {"session_id": "none", "base_model": "x"}, 404),
        ("forward_backward", {"model_id": "none"}, 404),
        ("retrieve_future", {"request_id": "none"}, 404),
        ("asample", {"sampling_session_id": "none"}, 404),
        ("asample", {"prompt": {"chunks": []}, "sampling_params": {}}, 400),
        ("optim_step", {}, 422),
    ],
)
def test_bad_requests_are_answered(server, path, body, status):
    reply = httpx.post(f"{server.url}/api/v1/{path}", json=body)
    assert reply.status_code == status and reply.json()["detail"]


def test_bodies_that_are_none(server):
    assert httpx.post(f"{server.url}/api/v1/create_session", content=b"{").status_code == 400
    assert httpx.post(f"{server.url}/api/v1/create_session", content=b"{" * 100_000).status_code == 400
    assert httpx.get(f"{server.url}/api/v1/elsewhere").status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"loss_fn": "dro"}, 400),
        ({"loss_fn": "ppo"}, 422),
        ({"targets": [6, 6, 8]}, 400),
        ({"weights": [1.0]}, 422),
        ({"data": []}, 422),
    ],
)
def test_bad_data_is_refused_before_anything_is_computed(remote, server, change, status):
    tensors = {
        "target_tokens": {"data": change.get("targets", [6, 7, 8]), "dtype": "int64"},
        "weights": {"data": change.get("weights", [1.0] * 3), "dtype": "float32"},
    }
    datum = {"model_input": {"chunks": [{"tokens": [5, 6, 7]}]}, "loss_fn_inputs": tensors}
    given = {"data": change.get("data", [datum]), "loss_fn": change.get("loss_fn", "cross_entropy")}
    reply = httpx.post(
        f"{server.url}/api/v1/forward_backward", json={"model_id": remote()._model.id, "forward_backward_input": given}
    )
    assert reply.status_code == status, reply.text
