"""What our Tinker-compatible server does: sessions, models and states over engines of this process.

Requests are taken by many threads and carried out by one, in the order in which they came (`tinker_jobs`). Nothing here knows HTTP
(`tinker_server` does).

A Tinker loss is carried out by the engine's `importance_sampling` at the policy's own log-probabilities, which are due in the reply anyhow
(`tinker_losses` says why that is exact). Gradients are summed.

States lie at FOLDER/MODEL/NAME, in the engine's own form, and outlive the server. A sampling session means the weights as they were saved:
while they are still the model's, the model itself samples; later a second engine does, from a saved state.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coevo.engines import tinker_requests as requests
from coevo.engines.settings import LoraConfig
from coevo.engines.tinker_jobs import Body, Job, Jobs
from coevo.engines.tinker_requests import Datum, Refusal
from coevo.engines.types import Engine, LossConfig, Prompt, Sampled
from coevo.errors import UsageError

log = logging.getLogger("coevo.engines")

MakeEngine = Callable[[LoraConfig | None, int, Path], Engine]
"""(adapter or None for all weights, seed of its first weights, folder of its states) -> a fresh engine of the base model."""

_RECORD = "model.json"
_PATH = re.compile(r"tinker://([A-Za-z0-9_-]+)/(?:(weights|sampler_weights)/)?([A-Za-z0-9_-]+)")


@dataclass
class _Model:
    engine: Engine
    session: str
    lora: LoraConfig | None
    moves: int = 0
    """Counts changes of the weights."""


@dataclass(frozen=True)
class _Sampler:
    """The weights of a sampling session: of a model at a number of moves, of a state, or (both empty) the base's."""

    model: str = ""
    moves: int = 0
    state: str = ""


class Service:
    """Close it, or use it in a `with`."""

    def __init__(
        self,
        make: MakeEngine,
        *,
        base: str,
        folder: Path,
        context: int | None,
        slots: int = 4,
        session_s: float = 300.0,
        averaged: bool = False,
    ) -> None:
        """`base` is the model's name; `slots` models may exist at a time; a session without a sign of life for `session_s` loses its own.
        `averaged`: gradients of one request are averaged over targets and sequences (as SkyRL on JAX does), not summed."""
        self._make, self._base, self._folder, self._context = make, base, folder, context
        self._slots, self._session_s, self._averaged = slots, session_s, averaged
        self._sessions: dict[str, float] = {}
        self._models: dict[str, _Model] = {}
        self._samplers: dict[str, _Sampler] = {}
        self._frozen: tuple[str, Engine] | None = None
        self._lock = threading.Lock()
        self._routes: Mapping[str, Callable[[Body], Body]] = {
            "client/config": lambda body: {"pjwt_auth_enabled": False},
            "telemetry": lambda body: {"status": "accepted"},
            "create_session": self._create_session,
            "session_heartbeat": self._heartbeat,
            "create_model": self._create_model,
            "unload_model": self._unload_model,
            "get_info": self._get_info,
            "weights_info": self._weights_info,
            "forward": self._forward,
            "forward_backward": self._forward_backward,
            "optim_step": self._optim_step,
            "save_weights": self._save_weights,
            "load_weights": self._load_weights,
            "save_weights_for_sampler": self._save_for_sampler,
            "create_sampling_session": self._create_sampler,
            "asample": self._asample,
            "retrieve_future": self._retrieve,
        }
        self._jobs = Jobs(self._sample, self._expire)

    def get(self, path: str) -> Body:
        """The answer to a GET. Raises `Refusal`."""
        match path.strip("/"):
            case "":
                return {"name": "coevo", "reduction": "sequence_mean" if self._averaged else "sum"}
            case "api/v1/healthz":
                return {"status": "ok"}
            case "api/v1/get_server_capabilities":
                return {"supported_models": [{"model_name": self._base, "max_context_length": self._context}]}
            case other if (found := re.fullmatch(r"api/v1/samplers/([\w-]+)", other)) and found[1] in self._samplers:
                state = self._samplers[found[1]].state
                return {"sampler_id": found[1], "base_model": self._base, "model_path": state or None}
        raise Refusal(404, f"no such address: {path}")

    def post(self, path: str, body: Body) -> Body:
        """The answer to a POST. Raises `Refusal`."""
        route = self._routes.get(path.removeprefix("/api/v1/").strip("/"))
        if route is None:
            raise Refusal(404, f"no such address: {path}")
        try:
            return route(body)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            raise Refusal(422, f"the body of {path} is not as it should be: {type(e).__name__}: {e}") from None

    def close(self) -> None:
        """End the work in hand and let go of all models. Safe to call twice."""
        self._jobs.close()
        for model in self._models.values():
            model.engine.close()
        self._models.clear()
        if self._frozen is not None:
            self._frozen[1].close()
            self._frozen = None

    # Answered at once.

    def _create_session(self, body: Body) -> Body:
        session = f"session-{secrets.token_hex(8)}"
        with self._lock:
            self._sessions[session] = time.monotonic()
        return {"type": "create_session", "session_id": session}

    def _heartbeat(self, body: Body) -> Body:
        self._alive(body["session_id"])
        return {"type": "session_heartbeat"}

    def _get_info(self, body: Body) -> Body:
        lora = self._model(body["model_id"]).lora
        data = {"model_name": self._base, "tokenizer_id": self._base}
        rank = lora.rank if lora else None
        return {
            "type": "get_info",
            "model_id": body["model_id"],
            "model_data": data,
            "is_lora": bool(lora),
            "lora_rank": rank,
        }

    def _weights_info(self, body: Body) -> Body:
        lora = _recorded(self._state(body["tinker_path"])[0].parent)
        return {"base_model": self._base, "is_lora": lora is not None, "lora_rank": lora.rank if lora else None}

    def _create_sampler(self, body: Body) -> Body:
        self._alive(body["session_id"])
        return {"type": "create_sampling_session", "sampling_session_id": self._new_sampler(self._source(body))}

    def _retrieve(self, body: Body) -> Body:
        result = self._jobs.result(body["request_id"])
        if result is None:
            raise Refusal(404, f"no future {body['request_id']!r}; this server may have been restarted")
        return result

    # Carried out by the working thread.

    def _create_model(self, body: Body) -> Body:
        session = body["session_id"]
        self._alive(session)
        if body["base_model"] != self._base:
            raise Refusal(400, f"no base model {body['base_model']!r}; this server has {self._base!r}")
        lora = requests.lora_of(body.get("lora_config"))
        seed = int((body.get("lora_config") or {}).get("seed") or 0)
        name = f"model-{secrets.token_hex(6)}"

        def work() -> Body:
            if len(self._models) >= self._slots:
                raise UsageError(f"Maximum number of models ({self._slots}) reached")
            folder = self._folder / name
            folder.mkdir(parents=True)
            record = {"base": self._base, "lora": lora.model_dump() if lora else None}
            (folder / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
            self._models[name] = _Model(self._make(lora, seed, folder), session, lora)
            return {"type": "create_model", "model_id": name}

        number = body.get("model_seq_id")
        return self._jobs.put(Job({}, work), None if number is None else (session, number))

    def _unload_model(self, body: Body) -> Body:
        name = body["model_id"]
        self._model(name)

        def work() -> Body:
            if (model := self._models.pop(name, None)) is not None:
                model.engine.close()
            return {"type": "unload_model", "model_id": name}

        return self._jobs.put(Job({}, work))

    def _forward(self, body: Body) -> Body:
        model, data = self._model(body["model_id"]), requests.data_of(body["forward_input"])

        def work() -> Body:
            return requests.outputs(_logprobs(model.engine, data), [np.zeros(len(d.ids) - 1) for d in data])

        return self._jobs.put(Job({}, work), _key(body, "forward"))

    def _forward_backward(self, body: Body) -> Body:
        model, given = self._model(body["model_id"]), body["forward_backward_input"]
        data, name, settings = requests.data_of(given), given["loss_fn"], given.get("loss_fn_config") or {}
        if name not in requests.LOSSES:
            raise Refusal(400, f"no loss {name!r}; there are {', '.join(requests.LOSSES)}")
        for datum in data:  # a tensor that is missing is refused before anything is computed
            requests.loss_of(name, settings, datum, np.zeros(len(datum.ids) - 1))

        def work() -> Body:
            found = _logprobs(model.engine, data)
            valued = [requests.loss_of(name, settings, datum, q) for datum, q in zip(data, found, strict=True)]
            version = model.engine.version
            slopes = requests.moved([slope for _, slope in valued])
            if self._averaged:
                slopes = [slope / (len(slope) * len(slopes)) for slope in slopes]
            rows = [requests.pulled(d, q, slope, version) for d, q, slope in zip(data, found, slopes, strict=True)]
            stats = model.engine.forward_backward(rows, LossConfig(name="importance_sampling"))
            if stats.skipped:
                raise UsageError(f"{stats.skipped} of {len(rows)} sequences have a loss that is not finite")
            return requests.outputs(found, [value for value, _ in valued])

        return self._jobs.put(Job({}, work), _key(body, "forward_backward"))

    def _optim_step(self, body: Body) -> Body:
        model = self._model(body["model_id"])
        lr, config = requests.optim_of(body["adam_params"])

        def work() -> Body:
            stats = model.engine.optim_step(lr, config)
            model.moves += 1
            found = {"grad_norm": stats.grad_norm, "applied": float(stats.applied), "update_ratio": stats.update_ratio}
            return {"metrics": {k: v for k, v in found.items() if v is not None and np.isfinite(v)}}

        return self._jobs.put(Job({}, work), _key(body, "optim_step"))

    def _save_weights(self, body: Body) -> Body:
        model, name = self._model(body["model_id"]), requests.named(body["path"])

        def work() -> Body:
            if (self._folder / body["model_id"] / name).exists() and not body.get("overwrite"):
                raise UsageError(f"model {body['model_id']} has a state {name!r} already")
            model.engine.save(name)
            return {"type": "save_weights", "path": f"tinker://{body['model_id']}/weights/{name}"}

        return self._jobs.put(Job({}, work), _key(body, "save_weights"))

    def _load_weights(self, body: Body) -> Body:
        model, optimizer = self._model(body["model_id"]), bool(body["optimizer"])
        folder, _ = self._state(body["path"])
        if _recorded(folder.parent) != model.lora:
            raise Refusal(400, f"the state {body['path']} has another adapter than model {body['model_id']}")

        def work() -> Body:
            model.engine.load(str(folder), with_optimizer=optimizer)
            model.moves += 1
            return {"type": "load_weights", "path": body["path"], "model_id": body["model_id"]}

        return self._jobs.put(Job({}, work), _key(body, "load_weights"))

    def _save_for_sampler(self, body: Body) -> Body:
        model, path = self._model(body["model_id"]), body.get("path")
        name = requests.named(path) if path else ""

        def work() -> Body:
            if not name:
                session = self._new_sampler(_Sampler(body["model_id"], model.moves))
                return {"type": "save_weights_for_sampler", "path": None, "sampling_session_id": session}
            model.engine.save(f"sampler-{name}", optimizer=False)
            address = f"tinker://{body['model_id']}/sampler_weights/{name}"
            return {"type": "save_weights_for_sampler", "path": address, "sampling_session_id": None}

        return self._jobs.put(Job({}, work), _key(body, "save_weights_for_sampler"))

    def _asample(self, body: Body) -> Body:
        if session := body.get("sampling_session_id"):
            if (source := self._samplers.get(session)) is None:
                raise Refusal(404, f"no sampling session {session!r}; this server may have been restarted")
        else:
            source = self._source(body)
        requests.prompts_of(body, self._context)  # what is not as it should be is refused at once
        return self._jobs.put(Job(body, batch=source))

    def _sample(self, jobs: list[Job]) -> None:
        """Sample all requests together; each is finished when its own samples are there."""
        assert isinstance(jobs[0].batch, _Sampler)
        engine = self._sampling(jobs[0].batch)
        jobs = sorted(jobs, key=lambda job: job.body.get("seq_id") or 0)  # as numbered, not as they came: equal sums
        prompts: list[Prompt] = []
        places: list[tuple[Job, int]] = []
        found: dict[str, dict[int, Sampled]] = {job.id: {} for job in jobs}
        known: dict[str, Sequence[float]] = {}
        for job in jobs:
            own = requests.prompts_of(job.body, self._context)
            places += [(job, i) for i in range(len(own))]
            prompts += own
            if job.body.get("prompt_logprobs"):
                known[job.id] = engine.logprobs([own[0].ids], prompt_tokens=[1])[0]

        def each(index: int, sampled: Sampled) -> None:
            job, i = places[index]
            mine = found[job.id]
            mine[i] = sampled
            if len(mine) == int(job.body.get("num_samples", 1)):
                job.finish(requests.sampled_reply([mine[k] for k in sorted(mine)], known.get(job.id)))

        engine.sample(prompts, each=each)

    def _sampling(self, source: _Sampler) -> Engine:
        """The engine that has these weights."""
        model = self._models.get(source.model)
        if model is not None and model.moves == source.moves:
            return model.engine
        if source.model:
            raise UsageError(
                "the weights of this sampling session have moved on; make a new one, or save them under a path"
            )
        if self._frozen is None or self._frozen[0] != source.state:
            if self._frozen is not None:
                self._frozen[1].close()
                self._frozen = None
            folder = self._folder / source.state
            engine = self._make(_recorded(folder.parent) if source.state else None, 0, self._folder / "sampler")
            if source.state:
                engine.load(str(folder), with_optimizer=False)
            self._frozen = (source.state, engine)
        return self._frozen[1]

    # What is known.

    def _alive(self, session: str) -> None:
        with self._lock:
            if session not in self._sessions:
                raise Refusal(404, f"no session {session!r}; it has ended, or this server was restarted")
            self._sessions[session] = time.monotonic()

    def _expire(self) -> None:
        """Let go of the models of sessions that have gone silent. Called by the working thread, between jobs."""
        with self._lock:
            dead = {s for s, heard in self._sessions.items() if time.monotonic() - heard > self._session_s}
            for session in dead:
                del self._sessions[session]
        for name in [name for name, model in self._models.items() if model.session in dead]:
            log.warning("session %s is silent: model %s is unloaded", self._models[name].session, name)
            self._models.pop(name).engine.close()

    def _model(self, name: str) -> _Model:
        model = self._models.get(name)
        if model is None:
            raise Refusal(
                404, f"no model {name!r}; it was unloaded, its session has ended, or this server was restarted"
            )
        return model

    def _state(self, path: str) -> tuple[Path, str]:
        """(folder, MODEL/NAME) of a saved state."""
        found = _PATH.fullmatch(path)
        if found is None:
            raise Refusal(400, f"{path!r} is no address of a state: tinker://MODEL/weights/NAME")
        name = f"{found[1]}/{'sampler-' if found[2] == 'sampler_weights' else ''}{found[3]}"
        if not (self._folder / name).is_dir():
            raise Refusal(404, f"no state {path!r}")
        return self._folder / name, name

    def _source(self, body: Body) -> _Sampler:
        path, base = body.get("model_path"), body.get("base_model")
        if path:
            return _Sampler(state=self._state(path)[1])
        if base != self._base:
            raise Refusal(400, f"no base model {base!r}; this server has {self._base!r}")
        return _Sampler()

    def _new_sampler(self, sampler: _Sampler) -> str:
        name = f"sampling-{secrets.token_hex(8)}"
        self._samplers[name] = sampler
        return name


def _logprobs(engine: Engine, data: Sequence[Datum]) -> list[np.ndarray]:
    """Of every target of every datum."""
    found = engine.logprobs([datum.ids for datum in data], prompt_tokens=[1] * len(data))
    return [np.array(q) for q in found]


def _recorded(folder: Path) -> LoraConfig | None:
    """The adapter of the model whose states lie in a folder."""
    try:
        lora = json.loads((folder / _RECORD).read_text(encoding="utf-8"))["lora"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Refusal(404, f"the model of this state is not described ({e})") from None
    return LoraConfig(**lora) if lora else None


def _key(body: Body, what: str) -> Hashable:
    """What a repeated request is recognised by: None where it is not numbered."""
    return None if body.get("seq_id") is None else (what, body["model_id"], body["seq_id"])


__all__ = ["MakeEngine", "Service"]
