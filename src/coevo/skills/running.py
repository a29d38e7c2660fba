"""Running a skill's scripts: JSON on stdin, JSON on stdout, exit code 0, a bounded time.

coevo's own scripts, byte for byte as shipped, run as plain processes (`python -I -S`, no environment), or in the sandbox where there is one and it is
asked for. All others, whoever wrote them and whatever they claim, run in the sandbox or not at all. A script that does not answer is data (`Failure`): its skill does not fire, changes nothing, and is `invalid` where it
had to verify.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from coevo.diagnostics.types import Diagnosis
from coevo.errors import SandboxError, WallsError
from coevo.sandbox import Job, Limits, Sandbox, SandboxConfig, open_sandbox
from coevo.sandbox import Status as Ended
from coevo.skills.cases import Report, run_cases
from coevo.skills.contents import digest_of
from coevo.skills.patches import one_line, patch_from, read_patch
from coevo.skills.reading import APPLY, PATCH
from coevo.skills.types import Failure, Fault, Outcome, Patch, Skill, Trigger, Verification

TIMEOUT_S = 10.0
MAX_OUTPUT = 256 << 10
"""Bytes of stdout that are an answer."""

TRIGGER = "scripts/trigger.py"

_EACH = """
import contextlib, io, json, sys

work, said = json.load(sys.stdin), []
for source in work["sources"]:
    sys.stdin, out = io.StringIO(work["given"]), io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(source, "<string>", "exec"), {"__name__": "__main__"})
        said.append(out.getvalue())
    except BaseException:
        said.append(None)
print(json.dumps(said))
"""
"""Several scripts on the same input, one after the other: what each printed, null where it did not end well."""

_FAULTS = {
    Ended.CPU: Fault.SLOW,
    Ended.WALL: Fault.SLOW,
    Ended.OUTPUT: Fault.TOO_LONG,
    Ended.INFRASTRUCTURE: Fault.INFRASTRUCTURE,
}
_WORDS = {str(word): word for word in (Outcome.HELPED, Outcome.HURT, Outcome.INCONCLUSIVE)}

Diagnosed = Diagnosis | Mapping[str, Any]
"""A diagnosis, or its `to_dict`."""


class Scripts:
    """Runs skills' scripts; a context manager. The sandbox is opened when the first foreign script runs, and kept.

    What cases said is kept by a skill's digest, so that asking again is free. With `walled`, coevo's own scripts run in the sandbox, too, where its
    walls stand: its warm processes answer in milliseconds, which pays from some ten scripts on. Not thread-safe.
    """

    def __init__(
        self, sandbox: SandboxConfig | None = None, *, walled: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._config = sandbox or SandboxConfig()
        self._walled_too = walled
        self._timeout_s = timeout_s
        self._sandbox: Sandbox | None = None
        self._reports: dict[str, Report] = {}
        self._own: frozenset[str] | None = None

    def __enter__(self) -> Scripts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox, if one was opened."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def fires(self, skill: Skill, diagnosis: Diagnosed) -> Trigger:
        """Whether a skill applies to a diagnosis. One whose script fails never does."""
        return self.triggers([skill], diagnosis)[0]

    def triggers(self, skills: Sequence[Skill], diagnosis: Diagnosed) -> list[Trigger]:
        """`fires` of each. coevo's own scripts run one after the other in one process, since to start it is most of what they cost; one that
        does not end well there is asked again alone, so that a fault is its own."""
        stdin = _encoded(plain(diagnosis))
        known = self._together([skill for skill in skills if TRIGGER in skill.files and self.is_own(skill)], stdin)
        said = (known.get(skill.digest) or self._ask(skill, TRIGGER, stdin) for skill in skills)
        return [_trigger(one) for one in said]

    def patch_of(self, skill: Skill, recipe: Mapping[str, Any], diagnosis: Diagnosed) -> Patch:
        """What a skill would change in a recipe (plain data, defaults filled in). An empty patch: it has nothing left to change."""
        if APPLY not in skill.files:
            patch, wrong = read_patch(skill.files.get(PATCH, ""), where=PATCH)
            return patch or Patch({}, failure=Failure(Fault.MALFORMED, wrong[0]))
        said = self._ask(skill, APPLY, _encoded({"recipe": plain(recipe), "diagnosis": plain(diagnosis)}))
        if isinstance(said, Failure):
            return Patch({}, failure=said)
        found = patch_from(said)
        return Patch({}, failure=Failure(Fault.MALFORMED, f"{APPLY}: {found}")) if isinstance(found, str) else found

    def verify(
        self,
        skill: Skill,
        before: Diagnosed,
        after: Diagnosed,
        *,
        truth: tuple[float | None, float | None] = (None, None),
    ) -> Verification:
        """Whether the use of a skill did what it promised: diagnoses of the parent and of the branch, and the truth of both where known."""
        given = {"before": plain(before), "after": plain(after), "truth": {"before": truth[0], "after": truth[1]}}
        said = self._ask(skill, "scripts/verify.py", _encoded(plain(given)))
        if isinstance(said, Failure):
            lost = said.fault is Fault.INFRASTRUCTURE
            return Verification(Outcome.INCONCLUSIVE if lost else Outcome.INVALID, str(said), said)
        word, reason = said.get("verdict"), said.get("reason", "")
        if not isinstance(word, str) or word not in _WORDS or not isinstance(reason, str):
            wanted = '{"verdict": "helped", "hurt" or "inconclusive", "reason": text}'
            failure = _malformed("scripts/verify.py", wanted, said)
            return Verification(Outcome.INVALID, str(failure), failure)
        return Verification(_WORDS[word], one_line(reason))

    def cases(self, skill: Skill) -> Report:
        """What became of a skill's cases; kept by its digest."""
        if skill.digest not in self._reports:
            report = run_cases(skill, self)
            if not report.measured:
                return report
            self._reports[skill.digest] = report
        return self._reports[skill.digest]

    def cases_hold(self, skill: Skill) -> bool:
        return self.cases(skill).hold

    def is_own(self, skill: Skill) -> bool:
        """Whether it is one of coevo's own, unmodified."""
        if self._own is None:
            from coevo.skills.store import shipped

            self._own = frozenset(found.digest for found in shipped())
        return digest_of(skill.files) in self._own

    def _ask(self, skill: Skill, script: str, stdin: bytes) -> dict[str, Any] | Failure:
        source = skill.files.get(script)
        if source is None:
            return Failure(Fault.MISSING, f"skill {skill.name!r} has no {script}")
        own = self.is_own(skill)
        ran = (
            self._plainly(script, source, stdin) if own and not self._walled_too else self._walled(skill, script, stdin)
        )
        if own and self._walled_too and isinstance(ran, Failure) and ran.fault is Fault.INFRASTRUCTURE:
            self._walled_too = False
            ran = self._plainly(script, source, stdin)
        return ran if isinstance(ran, Failure) else _answer(script, ran)

    def _together(self, own: Sequence[Skill], stdin: bytes) -> dict[str, dict[str, Any]]:
        """What triggers of coevo's own say, by digest, as far as they answer; none where they run in the sandbox."""
        if len(own) < 2 or self._walled_too:
            return {}
        work = _encoded({"given": stdin.decode(), "sources": [skill.files[TRIGGER] for skill in own]})
        done = self._plainly(TRIGGER, _EACH, work)
        if isinstance(done, Failure):
            return {}
        texts: list[str | None] = json.loads(done)
        answers = {
            skill.digest: _answer(TRIGGER, text.encode())
            for skill, text in zip(own, texts, strict=True)
            if text is not None
        }
        return {digest: said for digest, said in answers.items() if not isinstance(said, Failure)}

    def _plainly(self, script: str, source: str, stdin: bytes) -> bytes | Failure:
        """The text that was checked is what runs: never a file, which may have changed since."""
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", source]
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, timeout=self._timeout_s, env={}, check=False, cwd="/"
            )
        except subprocess.TimeoutExpired:
            return Failure(Fault.SLOW, f"{script} did not end within {self._timeout_s:g} s")
        except OSError as e:
            return Failure(Fault.INFRASTRUCTURE, f"{script} could not be started: {e}")
        if done.returncode:
            return Failure(Fault.CRASHED, f"{script} ended with {done.returncode}: {_last_line(done.stderr)}")
        return done.stdout

    def _walled(self, skill: Skill, script: str, stdin: bytes) -> bytes | Failure:
        limits = Limits(cpu_s=self._timeout_s, memory_mb=256, output_bytes=MAX_OUTPUT, disk_mb=1)
        job = Job(tuple(skill.files.items()), script, stdin=stdin, limits=limits)
        try:
            if self._sandbox is None:
                self._sandbox = open_sandbox(self._config)
            done = self._sandbox.run(job)
        except (SandboxError, WallsError) as e:
            return Failure(Fault.INFRASTRUCTURE, str(e))
        if done.status is Ended.OK:
            return done.stdout
        fault = _FAULTS.get(done.status, Fault.CRASHED)
        detail = done.error or _last_line(done.stderr) or str(done.status)
        return Failure(fault, f"{script}: {one_line(detail)}")


@contextmanager
def scripts_or_own(scripts: Scripts | None) -> Iterator[Scripts]:
    """The given runner, or one for this once."""
    if scripts is not None:
        yield scripts
        return
    with Scripts() as own:
        yield own


def fires(skill: Skill, diagnosis: Diagnosed, *, scripts: Scripts | None = None) -> Trigger:
    """`Scripts.fires`, by a runner of its own unless one is given."""
    with scripts_or_own(scripts) as runner:
        return runner.fires(skill, diagnosis)


def patch_of(skill: Skill, recipe: Mapping[str, Any], diagnosis: Diagnosed, *, scripts: Scripts | None = None) -> Patch:
    """`Scripts.patch_of`, by a runner of its own unless one is given."""
    with scripts_or_own(scripts) as runner:
        return runner.patch_of(skill, recipe, diagnosis)


def verify(
    skill: Skill,
    before: Diagnosed,
    after: Diagnosed,
    *,
    truth: tuple[float | None, float | None] = (None, None),
    scripts: Scripts | None = None,
) -> Verification:
    """`Scripts.verify`, by a runner of its own unless one is given."""
    with scripts_or_own(scripts) as runner:
        return runner.verify(skill, before, after, truth=truth)


def plain(value: Any) -> Any:
    """As JSON can hold it: a diagnosis by its `to_dict`, numbers that are not finite as null."""
    if isinstance(value, Diagnosis):
        value = value.to_dict()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    item = getattr(value, "item", None)
    return plain(item()) if item is not None else str(value)


def _encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _trigger(said: dict[str, Any] | Failure) -> Trigger:
    if isinstance(said, Failure):
        return Trigger(False, "", said)
    fires, why = said.get("fires"), said.get("why", "")
    if not isinstance(fires, bool) or not isinstance(why, str):
        return Trigger(False, "", _malformed(TRIGGER, '{"fires": true or false, "why": text}', said))
    return Trigger(fires, one_line(why))


def _answer(script: str, stdout: bytes) -> dict[str, Any] | Failure:
    if len(stdout) > MAX_OUTPUT:
        return Failure(Fault.TOO_LONG, f"{script} printed {len(stdout):,} bytes; {MAX_OUTPUT:,} are the limit")
    try:
        said = json.loads(stdout.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Failure(Fault.NOT_JSON, f"{script} must print one JSON object, not {_shown(stdout)}")
    return said if isinstance(said, dict) else _malformed(script, "an object", said)


def _malformed(script: str, wanted: str, said: Any) -> Failure:
    return Failure(Fault.MALFORMED, f"{script} must print {wanted}, not {one_line(json.dumps(said))[:200]}")


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _shown(data: bytes) -> str:
    return ascii(data[:80].decode("utf-8", "replace")) if data.strip() else "nothing"


def _last_line(data: bytes) -> str:
    lines = data[-4000:].decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else ""
