"""Every known way to a false win ends invalid, though the numbers of each would be promoted; and its honest neighbour is promoted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coevo.evidence.rows import frame_of
from coevo.gate.deciding import next_step
from coevo.gate.fingerprints import fingerprints
from coevo.gate.settings import GateConfig
from coevo.gate.types import Judgement, Look, Status, Subject, Verdict
from coevo.programs import Program
from tests.gate.driver import (
    RECIPE,
    SEALED,
    TASKS,
    Policy,
    Row,
    arms,
    first,
    judge,
    look_at,
    solver,
    u_shaped,
    values_of,
)

GAIN = 0.2
CONFIG = GateConfig()


def why(judgement: Judgement) -> set[str]:
    return {check.name for check in judgement.checks if check.status is Status.FAILED}


def rejected_at_once(check: str, **seen: Any) -> Judgement:
    """Invalid before a single sample was paid for."""
    step = next_step(CONFIG, first(CONFIG, **seen))
    assert isinstance(step, Judgement), f"asked for a look although {check} fails"
    assert step.verdict is Verdict.INVALID
    assert why(step) == {check}
    return step


def test_an_honest_gain_is_promoted_and_confirmed() -> None:
    verdict, asks = judge(solver(), solver(GAIN))
    assert verdict.verdict is Verdict.PROMOTED
    assert asks[-1].split == "holdout" and verdict.holdout_accesses == 1
    assert verdict.low is not None and verdict.low > 0
    assert len({ask.seed for ask in asks}) == len(asks)


# What the arms say of themselves


def test_a_seed_alone_is_no_change() -> None:
    found = rejected_at_once("integrity.changes", subjects=arms(recipe={**RECIPE, "seed": 137}, declared=None))
    assert "luck" in found.reasons[0]
    rejected_at_once("integrity.changes", subjects=arms(recipe={**RECIPE, "seed": 137}, declared=("seed",)))


def test_another_order_alone_is_no_change() -> None:
    parent, child = arms(declared=None)
    listed = {**RECIPE, "evaluate": {"tasks": ["a", "b", "c"]}}
    shuffled = {**RECIPE, "evaluate": {"tasks": ["c", "a", "b"]}}
    both = (replace(parent, recipe=listed), replace(child, recipe=shuffled))
    assert "order" in rejected_at_once("integrity.changes", subjects=both).reasons[0]


def test_a_plain_continuation_may_have_another_seed() -> None:
    verdict, _ = judge(solver(), solver(GAIN), seen=first(subjects=arms(recipe={**RECIPE, "seed": 137}, declared=())))
    assert verdict.verdict is Verdict.PROMOTED


@pytest.mark.parametrize("name", sorted(SEALED))
def test_an_edited_judge_split_gate_or_budget(name: str) -> None:
    found = rejected_at_once("integrity.sealed", subjects=arms(sealed={**SEALED, name: "0" * 64}))
    assert name in found.reasons[0]
    rejected_at_once("integrity.sealed", subjects=arms(sealed={k: v for k, v in SEALED.items() if k != name}))


def test_the_wrong_base_weights() -> None:
    rejected_at_once("integrity.base_weights", subjects=arms(base_weights="an instruct model"))
    rejected_at_once("integrity.base_weights", subjects=arms(base_weights=""))


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": {**RECIPE, "lr": 2e-5, "group_size": 16}},
        {"recipe": RECIPE},
        {"recipe": {**RECIPE, "lr": 2e-5}, "files": {"rewards/a.py": "2"}},
        {"recipe": {**RECIPE, "lr": 2e-5, "group_size": 16}, "declared": None},
        {"recipe": {**RECIPE, "lr": 2e-5}, "allowed": ("reward.*", "group_size")},
    ],
    ids=["a second leaf", "nothing", "a file", "two, undeclared", "forbidden"],
)
def test_what_changed_is_what_was_declared(changes: dict[str, Any]) -> None:
    rejected_at_once("integrity.changes", subjects=arms(**changes))


def test_a_declared_bundle_is_allowed() -> None:
    changed = {**RECIPE, "lr": 2e-5, "reward": {"parts": {"search_gain": 0.5, "length": 0.1}}}
    subjects = arms(recipe=changed, declared=("lr", "reward.parts"), allowed=("lr", "reward.*"))
    assert judge(solver(), solver(GAIN), seen=first(subjects=subjects))[0].verdict is Verdict.PROMOTED


@pytest.mark.parametrize("lacking", ["recipe", "sealed", "base_weights"])
def test_what_was_promised_and_is_missing_fails(lacking: str) -> None:
    empty: Any = "" if lacking == "base_weights" else {}
    parent, child = arms(**{lacking: empty}, origins=() if lacking == "base_weights" else ("w1",))
    subjects = (replace(parent, **{lacking: empty}), child)
    step = next_step(CONFIG, first(subjects=subjects))
    assert isinstance(step, Judgement) and step.verdict is Verdict.INVALID
    unpromised = next_step(CONFIG, first(subjects=subjects, promised=()))
    assert not isinstance(unpromised, Judgement)


def test_a_task_of_two_splits() -> None:
    rejected_at_once("integrity.splits", holdout=(*TASKS[:1], *[f"h{i}" for i in range(20)]))


def test_training_on_a_gate_task() -> None:
    training = frame_of([{"task": TASKS[0], "reward": 1.0, "unmeasured_reason": ""}])
    step = next_step(CONFIG, first(subjects=arms(training=training)))
    assert isinstance(step, Judgement) and "integrity.splits" in why(step)


# Training data

ANSWER = "def solve(n):\n    total = 0\n    for k in range(1, n + 1):\n        total += k * k % 7\n    return total\n"


def training(n: int = 40, **columns: Any) -> Any:
    return frame_of(
        [
            {
                "task": f"train-{i % 4}",
                "group": f"g{i // 4}",
                "sample": i % 4,
                "split": "train",
                "step": i // 8,
                "prompt": f"Solve task {i % 4}.",
                "response": f"print({i})",
                "reward": float(i % 2),
                "unmeasured_reason": "",
                **columns,
            }
            for i in range(n)
        ]
    )


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """These rollouts are made up to say one thing; what else is wrong with them is not asked here."""
    from coevo.gate.checks import health
    from coevo.gate.checks.running import passed

    monkeypatch.setattr(health, "diagnostics", lambda config, seen: passed("not asked"))


@pytest.mark.usefixtures("healthy")
def test_answers_in_the_prompts_of_training() -> None:
    answers = {TASKS[0]: fingerprints([ANSWER])}
    leaked = training(prompt=f"Here is something alike:\n\n{ANSWER.upper()}\nNow solve it.")
    found = rejected_at_once("truth.training_data", subjects=arms(training=leaked), answers=answers)
    assert TASKS[0] in found.reasons[0]
    clean = next_step(CONFIG, first(subjects=arms(training=training()), answers=answers))
    assert not isinstance(clean, Judgement)
    parent, child = arms(training=leaked)
    found = rejected_at_once("truth.training_data", subjects=(replace(parent, training=leaked), child), answers=answers)
    assert TASKS[0] in found.reasons[0], "a leak that the parent had, too, is learnt faster by a larger rate"


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("how", ["text", "program"])
def test_answers_in_the_responses_of_training(how: str) -> None:
    """More than a policy comes upon alone, word for word or as the same program in another dress."""
    sources = {task: ANSWER.replace("7", str(i + 8)) for i, task in enumerate(TASKS)}
    answers = {
        task: fingerprints([text], programs=[Program.of(text).id] if how == "program" else ())
        for task, text in sources.items()
    }
    if how == "text":
        rows = [{"response": f"Sure.\n```python\n{text}```"} for text in sources.values()]
    else:
        rows = [{"program_hash": Program.of(f"# mine\n{text}").id, "response": ""} for text in sources.values()]
    frame = frame_of([{"task": "train-1", "reward": 1.0, "unmeasured_reason": "", "prompt": "", **row} for row in rows])
    rejected_at_once("truth.training_data", subjects=arms(training=frame), answers=answers)
    alone = next_step(CONFIG, first(subjects=arms(training=frame.where(np.arange(frame.rows) < 2)), answers=answers))
    assert not isinstance(alone, Judgement), "two short answers alike are no leak"


@pytest.mark.usefixtures("healthy")
def test_answers_that_the_policy_wrote_in_its_own_searches_are_no_leak() -> None:
    """Short programs are alike: what it wrote itself counts with its responses. A search's start is the task's, and counts as given."""
    answers = {task: fingerprints([ANSWER.replace("7", str(i + 8))]) for i, task in enumerate(TASKS)}
    prompt = f"Make this better:\n\n{ANSWER.replace('7', '9')}"
    own = training(prompt=prompt, state_source="policy", depth=3)
    assert not isinstance(next_step(CONFIG, first(subjects=arms(training=own), answers=answers)), Judgement)
    for leaked in (
        training(prompt=prompt, state_source="policy", depth=0),
        training(prompt=prompt, state_source="search", depth=3),
    ):
        rejected_at_once("truth.training_data", subjects=arms(training=leaked), answers=answers)
    tried = {
        "task": "train-1",
        "reward": 1.0,
        "unmeasured_reason": "",
        "response": "no",
        "state_source": "policy",
        "depth": 0,
    }
    rows = [{**tried, "prompt": "Make this better:\n\nreturn 1"}, {**tried, "prompt": f"Tried before:\n\n{prompt}"}]
    seen = first(subjects=arms(training=frame_of(rows)), answers=answers)
    assert not isinstance(next_step(CONFIG, seen), Judgement), (
        "what it tried from a start is shown beside the start, and not always"
    )


@pytest.mark.usefixtures("healthy")
def test_answers_found_as_often_as_decoys_are_no_leak() -> None:
    """On puzzles with few programs a policy comes upon many answers; then it comes upon as many that nobody is judged by."""
    sources = [ANSWER.replace("7", str(i + 8)) for i in range(96)]
    answers = {task: fingerprints([text]) for task, text in zip(TASKS, sources[:48], strict=True)}
    decoys = {f"report-{i}": fingerprints([text]) for i, text in enumerate(sources[48:])}

    def wrote(texts: list[str]) -> Any:
        rows = [{"task": "train-1", "reward": 1.0, "unmeasured_reason": "", "prompt": "", "response": t} for t in texts]
        return arms(training=frame_of(rows))

    alike = first(subjects=wrote(sources[:20] + sources[48:64]), answers=answers, decoys=decoys)
    assert not isinstance(next_step(CONFIG, alike), Judgement)
    rejected_at_once(
        "truth.training_data", subjects=wrote(sources[:20] + sources[48:52]), answers=answers, decoys=decoys
    )


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    "command", ["git log -p -- solution.py", "git show HEAD~1:solution.py", "cat tests/hidden/test_answers.py"]
)
def test_reading_answers_where_they_lie(command: str) -> None:
    """In training, and on the gate's own tasks."""
    response = f"Let me look.\n```bash\n{command}\n```\n"
    rejected_at_once("truth.answer_source", subjects=arms(training=training(response=response, reward=1.0)))
    found, asks = judge(solver(prompt="Fix it.", response="ok"), solver(GAIN, prompt="Fix it.", response=response))
    assert found.verdict is Verdict.INVALID and why(found) == {"truth.answer_source"} and len(asks) == 1


@pytest.mark.usefixtures("healthy")
def test_timeouts_counted_as_success_in_training() -> None:
    rejected_at_once("truth.rewarded_failures", subjects=arms(training=training(stop_reason="timeout", reward=1.0)))
    rows = training(unmeasured_reason="the sandbox died")
    judged = next_step(CONFIG, first(subjects=arms(training=rows)))
    assert isinstance(judged, Judgement) and judged.verdict is Verdict.INVALID


# What the looks show


def caught(check: str, parent: Policy, child: Policy, **options: Any) -> Judgement:
    found, _ = judge(parent, child, **options)
    assert found.verdict is Verdict.INVALID, found.reasons
    assert check in why(found)
    return found


def test_public_up_and_truth_flat() -> None:
    def leaking(rng: np.random.Generator, task: str) -> Row:
        row = solver()(rng, task)
        return {**row, "fitness": 1.0, "reward": 1.0}

    caught("truth.gap", solver(), leaking)


def test_public_up_and_truth_up_a_little() -> None:
    def half_honest(rng: np.random.Generator, task: str) -> Row:
        row = solver(0.15)(rng, task)
        return {**row, "fitness": max(row["truth"], float(rng.random() < 0.5))}

    caught("truth.gap", solver(), half_honest)


def formatted(share: float, gain: float = 0.0) -> Policy:
    """Keeps the contract in a share of the replies; without it, there is no program to be right."""

    def policy(rng: np.random.Generator, task: str) -> Row:
        row = solver(gain)(rng, task)
        return (
            row if rng.random() < share else {**row, "truth": 0.0, "fitness": 0.0, "reward": 0.0, "contract_ok": False}
        )

    return policy


def test_a_gain_of_format_alone() -> None:
    found = caught("truth.format_only", formatted(0.4), formatted(1.0))
    assert found.difference is not None and found.difference > 0.1
    both, _ = judge(formatted(0.85), formatted(1.0, gain=0.3))
    assert both.verdict is Verdict.PROMOTED, "format and meaning together are a gain"


def test_handing_back_the_start_program() -> None:
    def lazy(rng: np.random.Generator, task: str) -> Row:
        return {"truth": 0.7, "fitness": 0.7, "parent_fitness": 0.7, "reward": 0.0}

    def trying(rng: np.random.Generator, task: str) -> Row:
        value = float(rng.choice([0.2, 0.5, 0.9]))
        return {"truth": value, "fitness": value, "parent_fitness": 0.7, "reward": 0.0}

    caught("truth.copies", trying, lazy)


def test_a_timeout_with_a_score() -> None:
    """The child's failures end in a timeout, and someone called that a success."""

    def timed_out(rng: np.random.Generator, task: str) -> Row:
        row = solver()(rng, task)
        return row if row["truth"] else {**row, "truth": 1.0, "stop_reason": "timeout"}

    caught("truth.rewarded_failures", solver(), timed_out)


def test_an_unmeasured_sample_with_a_score() -> None:
    def reason(look: Look) -> Look:
        """The look counts what its rows call unmeasured."""
        return look._replace(child={t: tuple(1.0 if v is None else v for v in vs) for t, vs in look.child.items()})

    def flaky(rng: np.random.Generator, task: str) -> Row:
        lost = rng.random() < 0.05
        return {**solver()(rng, task), "unmeasured_reason": "endpoint down" if lost else ""}

    found = caught("integrity.samples", flaky, flaky, alter=reason)
    assert "unmeasured" in found.reasons[0]


def test_the_mean_of_what_a_filter_kept() -> None:
    """Failures are dropped before the mean: from the numbers alone, or from the rows as well."""

    def kept_numbers(look: Look) -> Look:
        return look._replace(child={t: tuple(v for v in vs if v) or vs[:1] for t, vs in look.child.items()})

    def kept_rows(look: Look) -> Look:
        assert look.child_frame is not None
        rows = look.child_frame.excerpt(range(look.child_frame.rows))
        best = [row for row in rows if row["truth"]]
        best += [row for row in rows if row["task"] not in {r["task"] for r in best}]
        return look._replace(child=values_of(best), child_frame=frame_of(best))

    def kept_twice(look: Look) -> Look:
        """Successes repeated until the count is right."""
        filled = {
            t: tuple(sorted((v or 0.0 for v in vs), reverse=True)[: max(1, sum(map(bool, vs)))]) * 4
            for t, vs in look.child.items()
        }
        return look._replace(child={t: vs[:4] for t, vs in filled.items()})

    for alter in (kept_numbers, kept_rows, kept_twice):
        caught("integrity.samples", solver(), solver(), alter=alter)


def test_tasks_left_out_or_brought_along() -> None:
    hard = {task for task in TASKS if u_shaped(task) < 0.1}
    caught(
        "integrity.samples",
        solver(),
        solver(),
        alter=lambda look: look._replace(child={t: v for t, v in look.child.items() if t not in hard}),
    )
    caught(
        "integrity.samples",
        solver(),
        solver(),
        alter=lambda look: look._replace(child={**look.child, "easy": (1.0,) * 4}),
    )


def test_numbers_without_the_rows_behind_them() -> None:
    promised = ("recipe", "sealed", "base_weights", "rows")
    caught(
        "integrity.samples",
        solver(),
        solver(),
        seen=first(promised=promised),
        alter=lambda look: look._replace(child_frame=None),
    )
    assert judge(solver(), solver(GAIN), seen=first(promised=promised))[0].verdict is Verdict.PROMOTED


def test_numbers_that_are_none() -> None:
    nan = float("nan")
    caught(
        "integrity.samples",
        solver(),
        solver(),
        alter=lambda look: look._replace(child={**look.child, TASKS[0]: (nan,) * 4}),
    )


# What is nobody's fault


def test_missing_more_often_in_one_arm_is_unmeasured() -> None:
    def crashing(rng: np.random.Generator, task: str) -> Row:
        row = solver()(rng, task)
        dies = not row["truth"] and rng.random() < 0.13
        return {**row, "unmeasured_reason": "out of memory" if dies else ""}

    found, _ = judge(solver(), crashing)
    assert found.verdict is Verdict.UNMEASURED
    assert "depends on the arm" in found.reasons[0]


def test_few_missing_may_be_just_what_failed() -> None:
    """Twins; the child ends the sandbox where it would have failed, and no more often than the check of missing samples lets pass."""
    parent = solver()

    def gone(rows: Mapping[str, tuple[Any, ...]], most: int, *, failed: bool) -> dict[str, tuple[Any, ...]]:
        found, left = {}, most
        for i, (task, values) in enumerate(rows.items()):
            mixed = 0 < sum(values) < len(values)
            drop = left > 0 and (mixed if failed else i % 5 == 0)
            left -= drop
            at = values.index(0.0) if failed and drop else 0
            found[task] = tuple(None if drop and k == at else v for k, v in enumerate(values))
        return found

    def alter(look: Look) -> Look:
        return Look(look.split, look.number, gone(look.parent, 6, failed=False), gone(look.child, 12, failed=True))

    bare = first(CONFIG)._replace(promised=())
    verdicts = [judge(parent, solver(), seen=bare, alter=alter, seed=seed)[0] for seed in range(3)]
    assert not any(found.verdict is Verdict.PROMOTED for found in verdicts)
    assert any("may be what failed; counted so" in found.reasons[0] for found in verdicts), [
        f.reasons for f in verdicts
    ]

    def few(look: Look) -> Look:
        parent_has, child_has = (gone(arm, 6, failed=False) for arm in (look.parent, look.child))
        return Look(look.split, look.number, parent_has, child_has)

    assert judge(parent, solver(0.2), seen=bare, alter=few)[0].verdict is Verdict.PROMOTED


def test_too_much_missing_is_unmeasured_whatever_the_score() -> None:
    def lost(gain: float) -> Policy:
        def policy(rng: np.random.Generator, task: str) -> Row:
            if rng.random() < 0.2:
                return {"truth": None, "reward": None, "unmeasured_reason": "down"}
            return solver(gain)(rng, task)

        return policy

    assert judge(lost(0.0), lost(0.4))[0].verdict is Verdict.UNMEASURED


def test_losing_what_the_parent_could_is_rejected() -> None:
    def narrow(rng: np.random.Generator, task: str) -> Row:
        rate = 0.2 if u_shaped(task) > 0.8 else min(1.0, u_shaped(task) + 0.4)
        truth = float(rng.random() < rate)
        return {"truth": truth, "fitness": truth, "reward": truth, "contract_ok": True}

    found, _ = judge(solver(), narrow)
    assert found.verdict is Verdict.REJECTED
    assert why(found) >= {"non_regression.reliable_tasks"}


def test_the_looks_of_another_gate_are_not_taken() -> None:
    seen = first()
    step = next_step(CONFIG, seen)
    assert not isinstance(step, Judgement)
    look = look_at(step, solver(), solver(GAIN))
    for wrong in (look._replace(number=2), look._replace(split="train")):
        judged = next_step(CONFIG, seen._replace(looks=(wrong,)))
        assert isinstance(judged, Judgement) and judged.verdict is Verdict.INVALID


def test_two_files_without_promises_list_what_was_not_checked() -> None:
    found, _ = judge(solver(), solver(GAIN), seen=first(subjects=(Subject("a"), Subject("b")), promised=()))
    assert found.verdict is Verdict.PROMOTED
    assert any("not checked" in reason for reason in found.reasons)
