"""An engine whose policy lives on a Tinker-compatible server: SkyRL on your own GPUs, ours (`coevo.engines.tinker_server`), or a hosted one.

Plain HTTP rather than the `tinker` SDK: the part of the protocol that one policy needs is a dozen JSON requests, and `httpx` is a
dependency already. The SDK brings transformers, a Rust HTTP stack, telemetry and an event loop of its own; its releases move the wire
format (those after 0.24.1 expect protobuf replies, which SkyRL 0.3 does not send), and it refuses keys that do not look like the hosted
service's. What is spoken here is what SDK 0.24.1 speaks, see `tinker_wire`.

What servers differ in is asked of them, not assumed: base models, losses, whether gradients are summed or averaged over sequences (measured
where a server does not say), whether a load can leave the optimizer out, whether a norm is clipped. States stay on the server; a file
`states.json` in the engine's folder keeps their addresses, so that `load("step-20")` works in another process and after a restart.

Going back to a state makes a new model from it and unloads the old one, since servers refuse to load into a model that has trained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import SecretStr

from coevo.engines import tinker_losses as losses
from coevo.engines import tinker_states
from coevo.engines import tinker_wire as wire
from coevo.engines.codec import ChatCodec
from coevo.engines.settings import EngineConfig
from coevo.engines.tinker_http import Fault, TinkerError
from coevo.engines.tinker_remote import Remote, RemoteModel
from coevo.engines.types import Capabilities, Codec, LossConfig, LossStats, OptimConfig, Prompt, Row, Sampled, StepStats
from coevo.errors import ConfigError, ModelError
from coevo.models.spec import check_url

KEY_ENV = "TINKER_API_KEY"
WAVE = 256
"""Prompts asked for together."""


def open_tinker(
    base: str,
    config: EngineConfig,
    *,
    folder: Path,
    seed: int = 0,
    context: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> TinkerEngine:
    """An engine on the server at `config.url`. `base` names the model there and, as a folder or hub id, its tokenizer here.

    Raises `ConfigError` for a tokenizer that is not found, and what `TinkerEngine` raises.
    """
    return TinkerEngine(base, config, folder=folder, codec=_codec(base), seed=seed, context=context, environ=environ)


class TinkerEngine:
    """See `Engine` for the contract. Close it: a model that is not unloaded keeps its place on the server."""

    def __init__(
        self,
        base: str,
        config: EngineConfig,
        *,
        folder: Path,
        codec: Codec,
        seed: int = 0,
        context: int | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`seed` draws the adapter's first weights; the key comes from $TINKER_API_KEY; `context` is a bound below the server's own.

        Raises `ConfigError` for a server or model that does not fit, `ModelError` for one that cannot be reached or has no room.
        """
        if not config.url:
            raise ConfigError("engine.url is empty: give the address of a Tinker-compatible server, http://HOST:PORT")
        check_url(config.url)
        key = environ.get(KEY_ENV, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"environment variable {KEY_ENV} holds characters that no HTTP header can carry; set it again"
            )
        self._codec, self._config = codec, config
        self._states = tinker_states.States(Path(folder) / tinker_states.FILE)
        self._version = 0
        self._held = 0
        """Rows whose gradient waits for the optimizer step."""
        self._sampler = ""
        self._references: dict[str, RemoteModel] = {}
        self._closed = False
        self._remote = Remote(base, config, key=SecretStr(key) if key else None, seed=seed)
        self._context = min(filter(None, (self._remote.context, context)), default=None)
        try:
            self._model = self._remote.create()
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> Capabilities:
        traits = self._remote.traits
        able = "importance_sampling" in traits.losses
        return Capabilities(
            engine="tinker",
            losses=frozenset(losses.LOSSES if able else ()),
            kl=able,
            lora=True,
            max_tokens=self._context,
            details={
                "url": self._config.url,
                "server": traits.name or "not said",
                "base": self._remote.base,
                "reduction": "sum" if self._remote.summed else "sequence_mean",
                "clips_gradients": "yes" if traits.clips else "no: the server knows no bound of the norm",
                "load_without_optimizer": "yes" if traits.bare_load else "no",
            },
        )

    @property
    def codec(self) -> Codec:
        return self._codec

    @property
    def version(self) -> int:
        return self._version

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        """See `Engine`. At temperatures other than 1 log-probabilities are whatever the server reports."""
        prompts = [self._fitting(i, prompt) for i, prompt in enumerate(prompts)]
        if not prompts:
            return []
        with self._remembering():
            if not self._sampler:
                self._sampler = self._remote.sampler(self._model)
            found: dict[int, Sampled] = {}
            ends, wide = self._codec.ends, self._remote.traits.name == wire.OURS
            for start in range(0, len(prompts), WAVE):
                part = prompts[start : start + WAVE]

                def arrived(i: int, reply: dict[str, Any], start: int = start) -> None:
                    one = found[start + i] = wire.sampled(reply, prompts[start + i], ends)
                    if each is not None:
                        each(start + i, one)

                self._remote.sample(self._sampler, [(p.ids, wire.sampling(p, ends, wide=wide)) for p in part], arrived)
        return [found[i] for i in range(len(prompts))]

    def logprobs(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        prompt_tokens: Sequence[int],
        temperature: float = 1.0,
        of: str = "policy",
    ) -> list[tuple[float, ...]]:
        """See `Engine`. `base` and saved states are models of their own on the server, made at their first use and kept."""
        _require_one(temperature)
        for i, (ids, prompt) in enumerate(zip(sequences, prompt_tokens, strict=True)):
            self._check(f"sequence {i}", len(ids), prompt)
        with self._remembering():
            model = self._model if of == "policy" else self._reference(of)
            data = [wire.datum(ids, 1, {}, whole={"weights": 1.0}) for ids in sequences if len(ids) > 1]
            found = iter(self._remote.run(model, data, "cross_entropy", learn=False))
        return [
            next(found)[prompt - 1 :] if len(ids) > 1 else ()
            for ids, prompt in zip(sequences, prompt_tokens, strict=True)
        ]

    def forward_backward(self, rows: Sequence[Row], loss: LossConfig) -> LossStats:
        """See `Engine`. Losses that the server has take one pass; gspo, a KL term and a dual clip take two (`tinker_losses`)."""
        self._require_loss(loss)
        for i, row in enumerate(rows):
            _require_one(row.temperature)
            self._check(f"row {i}", len(row.token_ids), row.prompt_tokens)
        sound = [row for row in rows if losses.is_finite(row)]
        used = [row for row in sound if any(row.trained)]
        skipped = len(rows) - len(sound)
        if not used:
            return losses.stats(used, [], loss, skipped=skipped)
        if self._held and not self._remote.summed:
            raise ConfigError(
                "this server averages over all sequences of a step, so a step's rows must come in one forward_backward"
            )
        with self._remembering():
            values = self._learn(used, loss)
        return losses.stats(used, values, loss, skipped=skipped)

    def optim_step(self, lr: float, config: OptimConfig) -> StepStats:
        """See `Engine`. `grad_norm` is NaN where the server reports none; without a gradient nothing is sent."""
        if not self._held:
            return StepStats(self._version, lr, 0.0, update_ratio=0.0, applied=False)
        with self._remembering():
            metrics = self._remote.step(self._model, lr, config)
        applied = metrics.get("applied", 1.0) != 0
        self._held, self._sampler = 0, ""
        self._version += applied
        ratio = metrics.get("update_ratio")
        return StepStats(
            self._version, lr, wire.grad_norm(metrics), ratio if isinstance(ratio, float) else None, applied
        )

    def save(self, name: str, *, optimizer: bool = True) -> str:
        """See `Engine`. The state stays on the server, with the optimizer whatever is asked: the protocol has no other. Returns its
        address, `tinker://MODEL/weights/NAME`."""
        if self._held:
            raise ConfigError(f"save {name!r}: a gradient is held that no state would keep; call optim_step first")
        with self._remembering():
            path = self._remote.save(self._model, wire.state_name(name, self._version))
        self._states.put(name, path)
        return path

    def load(self, name: str, *, with_optimizer: bool) -> None:
        """See `Engine`: a new model is made from the state, and the old one unloaded. Also the way on after a server was restarted."""
        path = self._states.find(name)
        if not with_optimizer and not self._remote.traits.bare_load:
            raise ConfigError(
                f"the server at {self._config.url} always loads the optimizer with the weights; load with it, or use a server "
                "that takes `optimizer` in load_weights"
            )
        old, self._model = self._model, self._remote.restored(path, with_optimizer=with_optimizer)
        self._remote.unload(old)
        self._version, self._held, self._sampler = wire.state_version(path) or 0, 0, ""

    def close(self) -> None:
        """Unload what is ours on the server and leave no thread. Safe to call twice; never raises."""
        if not self._closed:
            self._closed = True
            self._remote.close()

    def __enter__(self) -> TinkerEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _learn(self, rows: Sequence[Row], loss: LossConfig) -> list[losses.Values]:
        """Send the gradient; each row's values at the log-probabilities where it was taken."""
        factors = losses.weights(rows, loss)
        name, settings = losses.native(loss)
        direct = losses.is_native(loss, summed=self._remote.summed) and name in self._remote.traits.losses
        pulling = loss.kl > 0 or any(a and t for row in rows for a, t in zip(row.advantages, row.trained, strict=True))
        if direct and pulling:
            pulls = [[f * a for a in row.advantages] for row, f in zip(rows, factors, strict=True)]
            found = self._gradient(rows, pulls, [row.logprobs for row in rows], name, settings)
            return [losses.evaluate(row, q[row.prompt_tokens - 1 :], loss) for row, q in zip(rows, found, strict=True)]
        ids, prompts = [row.token_ids for row in rows], [row.prompt_tokens for row in rows]
        now = self.logprobs(ids, prompt_tokens=prompts)
        then = self.logprobs(ids, prompt_tokens=prompts, of=loss.reference) if loss.kl else [None] * len(rows)
        values = [losses.evaluate(row, q, loss, r) for row, q, r in zip(rows, now, then, strict=True)]
        if pulling:
            pulls = [(-f * value.slope).tolist() for value, f in zip(values, factors, strict=True)]
            self._gradient(rows, pulls, now, "importance_sampling", None)
        return values

    def _gradient(
        self,
        rows: Sequence[Row],
        pulls: Sequence[Sequence[float]],
        logprobs: Sequence[Sequence[float]],
        name: str,
        settings: Mapping[str, float] | None,
    ) -> list[tuple[float, ...]]:
        """One pass with these advantages, scaled so that the server adds up what we mean: where it averages, its mean over the targets of
        a sequence (all of them: no mask is sent) and over the sequences of the step is undone."""
        data = []
        for row, pull, known in zip(rows, pulls, logprobs, strict=True):
            factor = 1.0 if self._remote.summed else (len(row.token_ids) - 1) * len(rows)
            data.append(wire.rl_datum(row, [factor * a for a in pull], known, weighted=name == "cross_entropy"))
        found = self._remote.run(self._model, data, name, settings, learn=True)
        self._held += len(rows)
        return found

    def _reference(self, of: str) -> RemoteModel:
        path = "" if of == "base" else self._states.find(of)
        if path not in self._references:
            bare = self._remote.traits.bare_load
            self._references[path] = (
                self._remote.restored(path, with_optimizer=not bare) if path else self._remote.create()
            )
        return self._references[path]

    def _remembering(self) -> _Forgotten:
        return _Forgotten(self)

    def forget(self) -> None:
        """The server lost what we had there: let nothing pretend that it is still so."""
        self._references.clear()
        self._held, self._sampler = 0, ""

    def _require_loss(self, loss: LossConfig) -> None:
        if loss.entropy:
            raise ConfigError(
                "the Tinker protocol has no entropies, so loss.entropy and an entropy floor need engine torch"
            )
        if loss.name == "dr_grpo" and loss.length is None:
            raise ConfigError(
                "loss dr_grpo: loss.length is not set; give the longest completion allowed, by which sums are divided"
            )
        if "importance_sampling" not in self._remote.traits.losses:
            raise ConfigError(
                f"the server at {self._config.url} has no loss importance_sampling, which every loss here needs"
            )

    def _check(self, what: str, length: int, prompt: int) -> None:
        if not 1 <= prompt <= length:
            raise ConfigError(f"{what}: {prompt} prompt tokens of {length} in all; at least 1 is needed")
        if self._context is not None and length > self._context:
            raise ConfigError(f"{what} has {length} tokens and the context is {self._context}")

    def _fitting(self, index: int, prompt: Prompt) -> Prompt:
        """The prompt with its reply bounded by the context."""
        length = len(prompt.ids)
        self._check(f"prompt {index}", length, 1)
        if prompt.max_new < 1:
            raise ConfigError(f"prompt {index}: max_new = {prompt.max_new} asks for nothing")
        if self._context is None or length + prompt.max_new <= self._context:
            return prompt
        if length >= self._context:
            raise ConfigError(
                f"prompt {index} has {length} tokens and the context is {self._context}: no reply fits; shorten the prompt"
            )
        return replace(prompt, max_new=self._context - length)


class _Forgotten:
    """Turns the loss of what was on the server into an error that says what to do."""

    def __init__(self, engine: TinkerEngine) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> None:
        if isinstance(error, TinkerError) and error.fault is Fault.GONE:
            self._engine.forget()
            raise ModelError(
                f"{error}. What was trained since the last saved state is lost; load that state (`coevo resume` does)"
            ) from None


def _require_one(temperature: float) -> None:
    if temperature != 1.0:
        raise ConfigError(
            f"Tinker servers compute log-probabilities at temperature 1, not {temperature:g}; set episode.temperature = 1"
        )


def _codec(base: str) -> ChatCodec:
    """The tokenizer of a folder or hub id (its files alone: no weights are fetched), and the tokens that end a reply."""
    from coevo.models import chat, weights

    weights.require("transformers")
    import transformers

    folder = Path(base).expanduser()
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": folder.is_dir()}
    where = folder if folder.is_dir() else base
    try:
        with weights.quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
            try:
                settings: Any = transformers.GenerationConfig.from_pretrained(where, **options)
            except OSError:
                settings = SimpleNamespace(eos_token_id=None)
    except Exception as e:
        raise ConfigError(
            f"engine tinker: no tokenizer for {base!r} on this machine or the hub ({type(e).__name__}: {str(e)[:200]}); give the base as "
            "a folder with the tokenizer, whose name the server knows, or as a hub id"
        ) from None
    return ChatCodec(tokenizer, chat.end_tokens(SimpleNamespace(generation_config=settings), tokenizer))


__all__ = ["KEY_ENV", "TinkerEngine", "open_tinker"]
