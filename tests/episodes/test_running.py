"""Episodes are judged while they are sampled; what they say is data, and what the machine does wrong is no zero."""

import threading
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevo.episodes import desk
from coevo.episodes.rows import rows_of
from coevo.episodes.running import run_episodes
from coevo.episodes.types import EpisodeConfig, Start
from coevo.errors import UsageError
from coevo.evaluation.judges import Judges
from coevo.evaluation.pool import LocalPool
from coevo.evaluation.types import Outcome
from coevo.evolution.types import Attempt, Edit, Rejection
from coevo.models.types import StopReason
from coevo.programs import Program
from coevo.streams import stream_seed
from coevo.tasks.sets import task_ref
from tests.episodes.stage import (
    START,
    BadJudges,
    CountingPool,
    TablePolicy,
    fenced,
    ramp_task,
    starts_of,
    state_of,
    upto,
)

ONE = EpisodeConfig(max_tokens=600)
REFINE = EpisodeConfig(name="refine", rounds=4, max_tokens=600)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return ramp_task(tmp_path_factory.mktemp("tasks") / "ramp3")


@pytest.fixture
def pool(task):
    with CountingPool([task]) as pool:
        yield pool


def go(policy, starts, pool, *tasks, config=ONE, seed=1, step=0):
    by_name = {task.name: task for task in tasks}
    return run_episodes(policy, starts, config, pool=pool, tasks=by_name, seed=seed, step=step)


def fitness(rollout):
    return [turn.judged.evaluation and turn.judged.evaluation.fitness for turn in rollout.turns]


def test_one_shot_judges_each_reply_on_public_and_hidden_tests(task, pool):
    replies = [fenced(upto(4)), fenced(upto(2)), "I cannot help with that.", fenced("def f(x):\n    return 1 / 0\n")]
    sources = iter(replies)
    rollouts = go(TablePolicy(lambda *_: next(sources)), starts_of(state_of(task), 4), pool, task)
    assert [r.sample for r in rollouts] == [0, 1, 2, 3]
    assert [fitness(r) for r in rollouts] == [[1.0], [0.5], [None], [0.0]]
    judged = [r.turns[0].judged for r in rollouts]
    assert [j.hidden.fitness if j.hidden else None for j in judged] == [1.0, 0.5, None, 0.0]
    assert judged[2].proposal.rejection is Rejection.REFUSAL and judged[3].evaluation.outcome is Outcome.FAILED
    assert judged[0].program_hash == Program.of(upto(4)).id and "ZeroDivisionError" in judged[3].evaluation.feedback
    assert not any(r.unmeasured for r in rollouts)
    assert all(r.version == 5 and r.turns[0].text == reply for r, reply in zip(rollouts, replies, strict=True))
    assert "Add 3." in rollouts[0].prompt and "f(0) gave 0, expected 3" in rollouts[0].prompt


def test_a_reply_is_judged_while_the_others_are_still_sampled(task):
    judged = threading.Event()

    def answer(_text, _seed, _call):
        if not answer.first:
            assert judged.wait(30), "the first reply was not judged while the second was being sampled"
        answer.first = False
        return fenced(upto(4))

    answer.first = True

    class Watched(LocalPool):
        def submit(self, fn, *args, deadline_s=None):
            future = super().submit(fn, *args, deadline_s=deadline_s)
            if fn.__name__ == "measure":
                future.add_done_callback(lambda _: judged.set())
            return future

    with Watched(1, partial(Judges, {task.name: task_ref(task)})) as pool:
        rollouts = go(TablePolicy(answer), starts_of(state_of(task), 2), pool, task)
    assert [fitness(r) for r in rollouts] == [[1.0], [1.0]]


def test_a_policy_that_reports_only_at_the_end_is_judged_too(task, pool):
    policy = TablePolicy(lambda *_: fenced(upto(3)), tell=False)
    assert fitness(go(policy, starts_of(state_of(task), 1), pool, task)[0]) == [0.75]


def test_equal_programs_of_a_step_are_judged_once_a_split(task, pool):
    notes = iter(["", "  # same", "", "  # other"])
    policy = TablePolicy(lambda *_: fenced(upto(2, note=next(notes))))
    rollouts = go(policy, starts_of(state_of(task), 4), pool, task)
    assert [(name, split) for name, _, split in pool.judged()] == [(task.name, "public"), (task.name, "hidden")]
    assert {r.turns[0].judged.evaluation.fitness for r in rollouts} == {0.5}
    go(policy := TablePolicy(lambda *_: fenced(upto(2))), starts_of(state_of(task), 1), pool, task, step=1)
    assert len(pool.judged()) == 4, "another step judges anew, under its own seed"


def test_where_feedback_is_read_only_equal_texts_are_equal(task, pool):
    notes = iter(["", "  # other"] + [""] * 10)
    policy = TablePolicy(lambda *_: fenced(upto(2, note=next(notes))))
    go(policy, starts_of(state_of(task), 2), pool, task, config=replace_config(REFINE, rounds=2, truth=0.0))
    assert len(pool.judged()) == 2


def replace_config(config, **changes):
    return config.model_copy(update=changes)


def test_a_reply_depends_on_its_place_and_never_on_its_neighbours(task, tmp_path, pool):
    def answer(_text, seed, _call):
        return fenced(upto(seed % 5, note=f"  # {seed}"))

    other = state_of(task, fitness=0.25)
    starts = [*starts_of(state_of(task), 3, "a"), *starts_of(replace(other, id="other"), 3, "b")]
    config = replace_config(ONE, truth=0.5)
    plain = go(TablePolicy(answer), starts, pool, task, config=config, seed=3, step=7)
    shuffled = go(TablePolicy(answer), starts[::-1], pool, task, config=config, seed=3, step=7)[::-1]

    def essence(r):
        return r.group, r.sample, r.seed, r.token_ids, r.turns[0].logprobs, r.truth, fitness(r)

    assert [essence(r) for r in plain] == [essence(r) for r in shuffled]
    assert plain[4].seed == stream_seed(3, "sample", 7, "b", 1, 0)
    assert len({r.seed for r in plain}) == 6
    moved = go(TablePolicy(answer), starts, pool, task, config=config, seed=3, step=8)
    assert not {r.seed for r in plain} & {r.seed for r in moved}


def test_states_of_one_id_are_each_shown_as_they_are(task, pool):
    """Ids are of normal forms: two states may differ in comments and numbers only, and edits are about the very text."""
    plain = state_of(task, style=Edit.DIFF)
    program = Program.of("# slow\n" + plain.context.parent.program.source)
    noted = replace(plain, context=replace(plain.context, parent=Attempt(program, 0.25)))
    policy = TablePolicy(lambda text, seed, call: "nothing")
    go(policy, [Start(plain, "a", 0), Start(noted, "b", 0)], pool, task)
    first, second = (policy.codec.decode(prompt.ids) for prompt in policy.seen[0])
    assert "# slow" not in first and "# slow" in second


def test_truth_is_asked_for_on_the_configured_share(task, pool):
    policy = TablePolicy(lambda _t, seed, _c: fenced(upto(seed % 5)))
    starts = starts_of(state_of(task), 40)
    none, some, all_ = (go(policy, starts, pool, task, config=replace_config(ONE, truth=t)) for t in (0.0, 0.5, 1.0))
    for rollouts, low, high in ((none, 0, 0), (some, 10, 30), (all_, 40, 40)):
        drawn = [r for r in rollouts if r.truth]
        assert low <= len(drawn) <= high
        assert all(r.turns[0].judged.hidden.split == "hidden" for r in drawn)
        assert all(r.turns[0].judged.hidden is None for r in rollouts if not r.truth)


def test_refine_goes_on_from_the_best_so_far_until_nothing_can_be_better(task, pool):
    replies = [fenced(upto(2)), fenced(upto(1)), "No code here.", fenced(upto(4)), "never asked for"]
    policy = TablePolicy(lambda _t, _s, call: replies[call])
    rollout = go(policy, starts_of(state_of(task), 1), pool, task, config=replace_config(REFINE, rounds=5))[0]
    assert fitness(rollout) == [0.5, 0.25, None, 1.0]
    first, second, third, fourth = (turn.message for turn in rollout.turns)
    assert first == ""
    assert second.startswith("Your program: fitness 0.5 (correctness 0.5). Before: fitness 0 (correctness 0).")
    assert "Feedback:\n```text\n" in second and "f(2): got None, expected 5" in second
    assert second.endswith(
        "Your program is the current program now.\n\nWrite a better version of the current program. Answer in the same form."
    )
    assert "Your program: fitness 0.25 (correctness 0.25). Before: fitness 0.5" in third
    assert "The current program stays as it was." in third
    assert fourth.startswith("Your answer was rejected: The reply has no complete code fence.")
    hidden = [turn.judged.hidden and turn.judged.hidden.fitness for turn in rollout.turns]
    assert hidden == [None, None, None, 1.0], "only the best program is judged on hidden tests"
    assert [split for _, _, split in pool.judged()].count("hidden") == 1


def test_refine_with_edits_shows_the_program_they_are_about(task, pool):
    def hunk(old, new):
        return f"<<<<<<< SEARCH\n    return {old}\n=======\n    return {new}\n>>>>>>> REPLACE\n"

    replies = [hunk("x", "x + 3 if x < 2 else 0"), hunk("x + 3 if x < 2 else 0", "x + 3")]
    policy = TablePolicy(lambda _t, _s, call: replies[call])
    rollout = go(policy, starts_of(state_of(task, style=Edit.DIFF), 1), pool, task, config=REFINE)[0]
    assert fitness(rollout) == [0.5, 1.0]
    assert "```python\ndef f(x):\n    return x + 3 if x < 2 else 0\n```" in rollout.turns[1].message
    assert rollout.turns[0].judged.hidden is None and rollout.turns[1].judged.hidden.fitness == 1.0


def test_written_from_the_statement_the_first_program_becomes_the_current_one(task, pool):
    replies = ["Let me think.", fenced("def f(x):\n    return None\n"), fenced(upto(2)), fenced(upto(1))]
    policy = TablePolicy(lambda _t, _s, call: replies[call])
    state = state_of(task, style=Edit.WRITE, fitness=0.25)
    rollout = go(policy, starts_of(state, 1), pool, task, config=REFINE)[0]
    assert fitness(rollout) == [None, 0.0, 0.5, 0.25]
    messages = [turn.message for turn in rollout.turns]
    assert messages[1].endswith("There is no current program yet.\n\nWrite the program. Answer in the same form.")
    assert (
        messages[2].startswith("Your program: fitness 0 (correctness 0).\n")
        and "is the current program now" in messages[2]
    )
    assert "return x\n" not in policy.codec.decode(rollout.token_ids), "the start program is not shown"


def test_refine_ends_when_another_reply_would_not_fit(task, pool):
    replies = [fenced(upto(1)), fenced(upto(2)), fenced(upto(3)), fenced(upto(4))]

    def rounds(context):
        policy = TablePolicy(lambda _t, _s, call: replies[call], context=context)
        rollout = go(policy, starts_of(state_of(task), 1), pool, task, config=REFINE)[0]
        assert not rollout.unmeasured
        assert all(len(p.ids) + p.max_new <= (context or 10**9) for prompts in policy.seen for p in prompts)
        return rollout

    free = rounds(None)
    assert len(free.turns) == 4
    exact = free.turns[1].start + REFINE.max_tokens
    assert [len(rounds(context).turns) for context in (exact, exact - 1)] == [2, 1]
    ended = rounds(exact - 1)
    assert len(ended.token_ids) == ended.turns[-1].start + len(ended.turns[-1].token_ids), "nothing unanswered is said"


def test_a_prompt_is_shortened_to_fit_and_unmeasured_where_it_cannot(task, pool):
    history = tuple(Attempt(Program.of(f"def f(x):\n    return {'x + ' * 20}{k}\n"), 0.1 * k) for k in (1, 2, 3))
    state = state_of(task, history=history)
    policy = TablePolicy(lambda *_: fenced(upto(1)))
    full = go(policy, starts_of(state, 1), pool, task)[0]
    assert full.prompt.count("## Attempt") == 3
    seen = set()
    for context in range(full.prompt_tokens + ONE.max_tokens, ONE.max_tokens, -40):
        policy = TablePolicy(lambda *_: fenced(upto(1)), context=context)
        rollout = go(policy, starts_of(state, 1), pool, task)[0]
        if rollout.unmeasured:
            assert rollout.turns == () and policy.seen == []
            assert f"context of {context} is too short" in rollout.unmeasured
            seen.add("unmeasured")
        else:
            assert rollout.prompt_tokens + ONE.max_tokens <= context
            seen.add(rollout.prompt.count("## Attempt"))
    assert seen == {0, 1, 2, 3, "unmeasured"}
    narrow = go(TablePolicy(lambda *_: "", context=600), starts_of(state, 1), pool, task)[0]
    assert narrow.unmeasured == "episode.max_tokens = 600 leaves no room for a prompt in a context of 600"
    long = state_of(task, program=Program.of(START.source + "# x\n" * 300))
    policy = TablePolicy(lambda *_: fenced(upto(1)))
    unfit = go(policy, starts_of(long, 1), pool, task, config=replace_config(ONE, prompt_chars=1000))[0].unmeasured
    assert "max_chars is 1,000" in unfit and policy.seen == []


def test_states_that_cannot_be_asked_about(task, pool):
    policy = TablePolicy(lambda *_: fenced(upto(1)))
    assert go(policy, starts_of(state_of(task, fitness=None), 1), pool, task)[0].unmeasured == (
        "its current program was never measured"
    )
    with pytest.raises(UsageError, match="which is not among the tasks given"):
        go(policy, starts_of(replace(state_of(task), task="other"), 1), pool, task)
    with pytest.raises(UsageError, match="asks for a 'mutate', which no policy writes"):
        go(policy, starts_of(state_of(task, style=Edit.MUTATE), 1), pool, task)
    with pytest.raises(UsageError, match="group 'g' has two start states"):
        go(policy, [Start(state_of(task), "g", 0), Start(state_of(task, style=Edit.DIFF), "g", 1)], pool, task)
    with pytest.raises(UsageError, match="sample 0 of group 'g' is asked for twice"):
        go(policy, starts_of(state_of(task), 1) * 2, pool, task)
    assert go(policy, [], pool, task) == []


def test_the_machines_troubles_are_unmeasured_and_stop_no_one_else(task, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "deadline_s", lambda task: 1.0 if task.name == "slow" else 120.0)
    slow = ramp_task(tmp_path / "slow")
    buggy = ramp_task(tmp_path / "buggy", checker_py="def check(output, expected, arguments):\n    return missing\n")
    broken = ramp_task(tmp_path / "broken", reference_py="def f(x):\n    return -1\n")
    orders = [(task, "# die\n"), (slow, "# hang\n"), (task, "# bug\n"), (task, ""), (buggy, ""), (broken, "")]
    tasks = [task, slow, buggy, broken]
    starts = [Start(state_of(t), t.name, number) for number, (t, _) in enumerate(orders)]
    notes = iter(note for _, note in orders)
    with LocalPool(2, partial(BadJudges, {t.name: task_ref(t) for t in tasks})) as pool:
        policy = TablePolicy(lambda *_: fenced(next(notes) + upto(4)))
        rollouts = go(policy, starts, pool, *tasks, config=replace_config(REFINE, rounds=2, truth=1.0))
    reasons = [r.unmeasured for r in rollouts]
    assert "killed by SIGKILL, 2 times" in reasons[0] and "deadline of 1 s" in reasons[1]
    assert reasons[2] == "KeyError: 'a bug of ours'" and reasons[3] == ""
    assert "a bug of the judge" in reasons[4] and "the reference fails" in reasons[5]
    for rollout in rollouts[:3] + rollouts[4:]:
        assert len(rollout.turns) == 1 and fitness(rollout) == [None]
        assert rollout.turns[0].judged.unmeasured == rollout.unmeasured
    assert fitness(rollouts[3]) == [1.0]


def test_the_users_own_mistakes_are_raised(task):
    with LocalPool(1, partial(BadJudges, {task.name: task_ref(task)})) as pool:
        policy = TablePolicy(lambda *_: fenced("# refuse\n" + upto(4)))
        with pytest.raises(UsageError, match="this machine has no walls"):
            go(policy, starts_of(state_of(task), 2), pool, task)


def test_a_model_without_a_chat_template_is_cut_at_its_stop(task, pool):
    replies = [fenced(upto(1)), fenced(upto(2))]
    policy = TablePolicy(lambda _t, _s, call: replies[call] + "\nUser: and then?", template=None)
    rollout = go(policy, starts_of(state_of(task), 1), pool, task, config=replace_config(REFINE, rounds=2))[0]
    assert [turn.text for turn in rollout.turns] == replies and fitness(rollout) == [0.25, 0.5]
    assert policy.seen[0][0].stop == ("\nUser:",)


ids = st.lists(st.integers(0, 300), min_size=1, max_size=12).map(tuple)
replies = st.one_of(
    ids.map(lambda ids: (ids, StopReason.LENGTH)),
    ids.map(lambda ids: ((*ids, 2), StopReason.STOP)),
    st.text(max_size=60),
    st.sampled_from([fenced(upto(k)) for k in range(4)]),
    st.sampled_from(["```python\n" + "(" * 200, "<think>", "```\n\0```", fenced("import os\nos._exit(0)\n")]),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(replies, min_size=8, max_size=8), st.sampled_from([Edit.REWRITE, Edit.DIFF, Edit.WRITE]), st.booleans())
def test_ids_in_are_ids_out_whatever_is_said(task, pool, table, style, templated):
    template = {} if templated else {"template": None}
    policy = TablePolicy(lambda _t, seed, call: table[(seed + call) % 8], **template)
    rollouts = go(
        policy, starts_of(state_of(task, style=style), 2), pool, task, config=replace_config(REFINE, truth=0.0)
    )
    for rollout in rollouts:
        assert not rollout.unmeasured and 1 <= len(rollout.turns) <= 4
        at = rollout.prompt_tokens
        for number, turn in enumerate(rollout.turns):
            prompt = next(
                p for p in policy.seen[number] if p.seed == stream_seed(1, "sample", 0, "g", rollout.sample, number)
            )
            assert prompt.ids == rollout.token_ids[: turn.start], "each prompt is a prefix of the whole"
            assert rollout.token_ids[turn.start : turn.start + len(turn.token_ids)] == turn.token_ids
            assert turn.start >= at and (number == 0) == (turn.start == at == rollout.prompt_tokens)
            at = turn.start + len(turn.token_ids)
        assert at == len(rollout.token_ids)
        row = rows_of(rollout, range(1, len(rollout.turns) + 1))
        assert row.token_ids == rollout.token_ids and row.prompt_tokens == rollout.prompt_tokens
        assert len(row.trained) == len(row.advantages) == len(row.logprobs) == len(row.token_ids) - row.prompt_tokens
        after = row.token_ids[row.prompt_tokens :]
        own = [(t, a, p) for t, a, p, m in zip(after, row.advantages, row.logprobs, row.trained, strict=True) if m]
        assert own == [
            (token, number, logprob)
            for number, turn in enumerate(rollout.turns, 1)
            for token, logprob in zip(turn.token_ids, turn.logprobs, strict=True)
        ]
        silenced = rows_of(rollout, [None] * len(rollout.turns))
        assert not any(silenced.trained) and not any(silenced.advantages) and not any(silenced.logprobs)
        rest = [(a, p) for a, p, m in zip(row.advantages, row.logprobs, row.trained, strict=True) if not m]
        assert rest == [(0.0, 0.0)] * len(rest)


def test_rows_of_what_says_nothing_are_refused(task, pool):
    rollout = go(TablePolicy(lambda *_: fenced(upto(1))), starts_of(state_of(task), 1), pool, task)[0]
    with pytest.raises(UsageError, match="1 turns need as many advantages, not 2"):
        rows_of(rollout, [1.0, 2.0])
    with pytest.raises(UsageError, match="cannot be trained on: the worker died"):
        rows_of(replace(rollout, unmeasured="the worker died"), [1.0])
