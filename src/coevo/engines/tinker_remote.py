"""Models on a Tinker-compatible server: what the server can do, a session that is kept alive, and passes over data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from coevo.engines import tinker_wire as wire
from coevo.engines.settings import EngineConfig
from coevo.engines.tinker_http import Call, Connection, Fault, TinkerError
from coevo.engines.types import OptimConfig
from coevo.errors import ConfigError, ModelError, StoreError

log = logging.getLogger("coevo.engines")

PROTOCOL = "0.24.1"
"""The SDK version whose requests these are."""
_API = "/api/v1/"
_ALPHA = 32.0
"""LoRA's alpha on servers that let nobody choose it."""

Arrived = Callable[[int, dict[str, Any]], None]


@dataclass
class RemoteModel:
    """One model on the server. Requests to it are numbered: servers order them, and recognise a repetition, by `seq_id`."""

    id: str
    seq: int = 0

    def next(self) -> dict[str, Any]:
        self.seq += 1
        return {"model_id": self.id, "seq_id": self.seq}


class Remote:
    """One server and one session on it. Close it: models that are not unloaded keep their places until the session ends."""

    def __init__(self, base: str, config: EngineConfig, *, key: SecretStr | None, seed: int) -> None:
        """Raises `ConfigError` for a server or model that does not fit, `ModelError` for one that cannot be reached."""
        self._config, self._seed = config, seed
        self._session, self._made, self._samplers, self._asked = "", 0, 0, 0
        self._models: list[RemoteModel] = []
        self._http = Connection(config.url, key=key, patience_s=config.patience_s, deadline_s=config.deadline_s)
        try:
            self.traits = self._asked_traits()
            self.base, self.context = self._known_base(base)
            self._check_adapter()
            self._open_session()
            self.summed = self._reduction() == "sum"
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unload all models and leave no thread. Never raises; a server that does not answer is not waited for."""
        self._http.leave()
        for model in list(self._models):
            if not self.unload(model):
                break
        self._http.close()

    # Models.

    def create(self) -> RemoteModel:
        """A fresh model of the base: its adapter changes nothing yet."""
        body = {
            "session_id": self._session,
            "model_seq_id": self._made,
            "base_model": self.base,
            **self._adapter(),
            "type": "create_model",
        }
        self._made += 1
        try:
            reply = self._result("create_model", body, again=self.traits.repeats)
        except TinkerError as e:
            raise self._advised(e) from None
        if not isinstance(reply.get("model_id"), str):
            raise ModelError(f"the Tinker server at {self._config.url} made a model without an id")
        model = RemoteModel(reply["model_id"])
        self._models.append(model)
        return model

    def restored(self, path: str, *, with_optimizer: bool) -> RemoteModel:
        """A new model from a saved state, in a new session where the server no longer knows ours."""
        try:
            model = self.create()
        except TinkerError as e:
            if e.fault is not Fault.GONE:
                raise
            self._open_session()
            model = self.create()
        body = {**model.next(), "path": path, "optimizer": with_optimizer, "type": "load_weights"}
        try:
            self._result("load_weights", body)
        except TinkerError as e:
            self.unload(model)
            if e.fault in (Fault.GONE, Fault.REFUSED):
                raise StoreError(f"cannot load state {path}: {e}") from None
            raise
        return model

    def unload(self, model: RemoteModel) -> bool:
        """Free the model's place; whether the server answered. What goes wrong is logged."""
        with suppress(ValueError):
            self._models.remove(model)
        try:
            self._result("unload_model", {"model_id": model.id, "type": "unload_model"})
        except TinkerError as e:
            if e.fault is Fault.GONE:
                return True
            log.warning("a model stays on the server until its session ends: %s", e)
            return False
        return True

    def run(
        self,
        model: RemoteModel,
        data: list[dict[str, Any]],
        loss: str,
        settings: Mapping[str, float] | None = None,
        *,
        learn: bool,
    ) -> list[tuple[float, ...]]:
        """A forward pass, or with `learn` a gradient too, in as many requests as it takes; the log-probability of every target."""
        path, field = ("forward_backward", "forward_backward_input") if learn else ("forward", "forward_input")
        found: list[tuple[float, ...]] = []
        for chunk in wire.chunks(data):  # one after the other: a server may refuse what comes out of order
            sent: dict[str, Any] = {"data": chunk, "loss_fn": loss}
            if settings is not None:
                sent["loss_fn_config"] = dict(settings)
            reply = self._result(path, {**model.next(), field: sent}, again=not learn or self.traits.repeats)
            lengths = [len(one["loss_fn_inputs"]["target_tokens"]["data"]) for one in chunk]
            found += wire.target_logprobs(reply, lengths)
        return found

    def step(self, model: RemoteModel, lr: float, config: OptimConfig) -> dict[str, Any]:
        """Apply the gradient; the server's metrics."""
        body = {**model.next(), "adam_params": wire.adam(lr, config), "type": "optim_step"}
        metrics = self._result("optim_step", body, again=self.traits.repeats).get("metrics")
        return metrics if isinstance(metrics, dict) else {}

    def save(self, model: RemoteModel, name: str) -> str:
        """Keep the model's state under a name that is free; its address."""
        body = {**model.next(), "path": name, "type": "save_weights"}
        path = self._result("save_weights", body, again=self.traits.repeats).get("path")
        if not isinstance(path, str) or not wire.is_state(path):
            raise ModelError(f"the Tinker server saved a state and gave {path!r} for its address")
        return path

    def sampler(self, model: RemoteModel) -> str:
        """A sampling session of the model's weights as they are."""
        self._samplers += 1
        body = {**model.next(), "sampling_session_seq_id": self._samplers, "type": "save_weights_for_sampler"}
        found = self._result("save_weights_for_sampler", body, again=self.traits.repeats).get("sampling_session_id")
        if not isinstance(found, str):
            raise ModelError(f"the Tinker server at {self._config.url} gave no sampling session for the weights")
        return found

    def sample(
        self, session: str, asked: Sequence[tuple[Sequence[int], Mapping[str, Any]]], arrived: Arrived
    ) -> list[dict[str, Any]]:
        """One sample for each (prompt, `sampling_params`), all under way together; `arrived` is called as they come."""
        calls = []
        for ids, settings in asked:
            self._asked += 1
            body = {
                "num_samples": 1,
                "prompt": wire.tokens(ids),
                "sampling_params": dict(settings),
                "sampling_session_id": session,
                "seq_id": self._asked,
                "type": "sample",
            }
            calls.append(Call(_API + "asample", body))
        return self._http.results(calls, arrived)

    def _result(self, path: str, body: Mapping[str, Any], *, again: bool = True) -> dict[str, Any]:
        return self._http.result(Call(_API + path, body, again))

    # What the server is.

    def _asked_traits(self) -> wire.Traits:
        if self._http.get(_API + "healthz") is None:
            raise ConfigError(
                f"{self._config.url} answers, but not as a Tinker server ({_API}healthz); check engine.url"
            )
        return wire.traits(
            self._http.get("/"), self._http.get(_API + "get_server_capabilities"), self._http.get("/openapi.json")
        )

    def _known_base(self, base: str) -> tuple[str, int | None]:
        """The server's name for `base`: the same text, or the same last part of a path."""
        models = dict(self.traits.models)
        if base in models or not models:
            return base, models.get(base)
        near = [name for name in models if Path(name).name == Path(base).name]
        if len(near) == 1:
            return near[0], models[near[0]]
        raise ConfigError(
            f"the server at {self._config.url} has no base model {base!r}. It has: {', '.join(sorted(models))}"
        )

    def _check_adapter(self) -> None:
        lora = self._config.lora
        if lora is None or self.traits.name == wire.OURS:
            return
        if lora.alpha != _ALPHA or lora.dropout or lora.targets != "all-linear":
            raise ConfigError(
                f"this server lets nobody choose LoRA's alpha, dropout or targets; leave them at {_ALPHA:g}, 0 and all-linear"
            )

    def _adapter(self) -> dict[str, Any]:
        lora = self._config.lora
        if lora is None:  # all weights; SkyRL's way of saying so is rank 0
            return {"lora_config": {"rank": 0}} if self.traits.name == wire.SKYRL else {}
        own = {"alpha": lora.alpha, "dropout": lora.dropout, "targets": lora.targets}
        common = {"rank": lora.rank, "seed": self._seed & wire.MAX_SEED}
        return {"lora_config": common | (own if self.traits.name == wire.OURS else {})}

    def _open_session(self) -> None:
        body = {"tags": ["coevo"], "user_metadata": None, "sdk_version": PROTOCOL, "type": "create_session"}
        session = self._http.post(Call(_API + "create_session", body)).get("session_id")
        if not isinstance(session, str):
            raise ModelError(f"the Tinker server at {self._config.url} opened a session without an id")
        self._session, self._made, self._samplers, self._asked = session, 0, 0, 0
        self._http.keep_alive(session)

    def _advised(self, e: TinkerError) -> ModelError:
        if "Maximum number" in str(e):
            return ModelError(
                f"{e}. Close other clients, wait until the sessions of dead ones end (after some 300 s), or start the server with "
                "room for more"
            )
        if e.fault is Fault.REFUSED and self._config.lora is None:
            return ModelError(f"{e}. This server may train adapters only: set engine.lora.rank")
        return e

    def _reduction(self) -> str:
        """How the server adds up: as configured, as it says, as documented (a sum), or for SkyRL, whose backends differ, as measured."""
        if self._config.reduction != "auto":
            return self._config.reduction
        if self.traits.reduction:
            return self.traits.reduction
        return self._measured() if self.traits.name == wire.SKYRL else "sum"

    def _measured(self) -> str:
        """On a model of its own: two equal sequences have twice the gradient of one where it sums, the same where it averages."""
        model = self.create()
        norms = []
        for count in (1, 2):
            data = [wire.datum((1, 2, 3, 4), 1, {}, whole={"weights": 1.0})] * count
            self.run(model, data, "cross_entropy", learn=True)
            norms.append(wire.grad_norm(self.step(model, 0.0, OptimConfig(max_grad_norm=None))))
        self.unload(model)
        ratio = norms[1] / norms[0] if norms[0] > 0 else float("nan")
        if abs(ratio - 2) < 0.1:
            return "sum"
        if abs(ratio - 1) < 0.05:
            return "sequence_mean"
        raise ConfigError(
            f"cannot tell whether the server at {self._config.url} sums or averages gradients (norms {norms}); "
            "set engine.reduction to sum or sequence_mean"
        )


__all__ = ["PROTOCOL", "Remote", "RemoteModel"]
