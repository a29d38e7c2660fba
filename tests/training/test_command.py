"""Trainer command: what is handed over, what is looked at, and every way in which a foreign trainer can go wrong."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.config import parse
from coevo.episodes.evidence import COLUMNS
from coevo.errors import ConfigError, UsageError
from coevo.runs import Budget, Run
from coevo.runs.types import State
from coevo.training import checkpoints
from coevo.training.command import train_command
from coevo.training.evidence_file import check_evidence, read_evidence
from coevo.training.hf_folder import check_checkpoint
from coevo.training.history import curve
from coevo.training.result import StoppedBy
from coevo.training.settings import Recipe

EXAMPLE = Path(__file__).parents[2] / "examples" / "command_trainer.py"
ROW = {"step": 1, "split": "train", "task": "t", "group": "g", "sample": 0, "reward": 0.5}

WRITER = """
import json, os, pathlib, signal, struct, sys, time
told = json.loads(pathlib.Path(sys.argv[-1]).read_text())
def checkpoint(values=(1.0, 2.0), cut=0):
    out = pathlib.Path(told["out"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text('{"model_type": "llama"}')
    (out / "tokenizer.json").write_text("{}")
    data = struct.pack(f"<{len(values)}f", *values)
    header = json.dumps({"w": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]}}).encode()
    raw = len(header).to_bytes(8, "little") + header + data
    (out / "model.safetensors").write_bytes(raw[: len(raw) - cut])
def rows(*changes):
    base = dict(step=1, split="train", task="t", group="g", sample=0, reward=0.5, tokens=3)
    pathlib.Path(told["evidence"]).write_text("".join(json.dumps({**base, **c}) + "\\n" for c in changes))
"""


def recipe(*command, **more):
    return parse(Recipe, {"trainer": "command", "command": list(command), **more}, where="test")


def run_script(path, script, *, budget=None, resume=False, **more):
    """The result of a run whose command is this script, after the helpers above."""
    file = path.parent / "trainer.py"
    file.write_text(WRITER + script)
    made = recipe(sys.executable, str(file), **more)
    opened = (
        Run.open(path, write=True, budget=budget)
        if resume
        else Run.create(path, kind="train", config={"recipe": made.model_dump(mode="json")}, budget=budget)
    )
    with opened as run:
        return train_command(made, run, weights="base", grace_s=0.5)


def state_of(path):
    with Run.open(path, write=False) as run:
        return run.state()


def test_what_a_sound_command_leaves_becomes_part_of_the_run(tmp_path):
    path = tmp_path / "run"
    result = run_script(
        path, "checkpoint(); rows({}, {'reward': 1.0, 'sample': 1, 'truth': 0.2}, {'step': 2, 'split': 'eval'})"
    )
    assert result.stopped_by is StoppedBy.STEPS and result.steps == 2 and result.exit_code == 0
    assert result.last == path / "checkpoints" / "step-000002" == checkpoints.pick(path).path
    assert result.last is not None and check_checkpoint(result.last) == {
        "files": ["model.safetensors"],
        "parameters": 2,
    }
    assert result.spent["evaluations"] == 3 and result.spent["tokens"] == 9
    with Run.open(path, write=False) as run:
        rows, steps = list(run.rollouts()), list(curve(run))
    assert all(set(row) == set(COLUMNS) and row["run"] == "run" for row in rows)
    assert [row["reward_mean"] for row in steps] == [0.75, 0.5] and steps[0]["truth"] == pytest.approx(0.2)
    assert state_of(path) is State.FINISHED


def test_what_is_handed_over(tmp_path, stage):
    path = tmp_path / "run"
    script = "checkpoint(); rows({}); pathlib.Path(told['out']).with_name('seen.json').write_text(json.dumps([told, os.environ['COEVO_RECIPE']]))"
    run_script(path, script, budget=Budget(minutes=5), seed=7, steps=3, states={"tasks": [str(stage.task)]})
    told, environ = json.loads((path / "artifacts" / "command" / "seen.json").read_text())
    assert environ == str((path / "artifacts" / "command" / "recipe.json").resolve())
    assert (told["schema"], told["run"], told["weights"], told["seed"], told["steps"]) == (1, "run", "base", 7, 3)
    assert 200 < told["deadline_s"] <= 300
    assert parse(Recipe, told["recipe"], where="told").states.tasks == (str(stage.task),)
    [state] = [json.loads(line) for line in Path(told["states"]).read_text().splitlines()]
    assert state["task"] == "three" and state["style"] == "write" and state["program"] is None
    assert [message["role"] for message in state["messages"]][-1] == "user"
    assert Path(state["task_folder"]) == stage.task.resolve()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit('no GPU here')", "ended with 1: no GPU here"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("rows({})", "no checkpoint at"),
        ("checkpoint(); ", "cannot read evidence"),
        ("checkpoint(); rows()", "holds no rows"),
        ("checkpoint(cut=2); rows({})", "is truncated"),
        ("checkpoint(values=(1.0, float('nan'))); rows({})", "tensor 'w' holds values that are not finite"),
        (
            "checkpoint(); rows({}, {'rewrad': 1}, {'truth': 'yes'})",
            "line 2: unknown column 'rewrad'. Did you mean 'reward'?; line 3: truth",
        ),
    ],
)
def test_what_is_not_sound_is_not_kept_and_told(tmp_path, script, said):
    path = tmp_path / "run"
    result = run_script(path, script)
    assert result.stopped_by is StoppedBy.FAILED and result.exit_code == 1 and said in result.message
    assert result.last is None and result.steps == 0
    with Run.open(path, write=False) as run:
        assert run.counts()["rollouts"] == 0
    assert state_of(path) is State.STOPPED


def test_evidence_mended_by_hand_is_taken_without_another_run(tmp_path):
    path = tmp_path / "run"
    assert run_script(path, "checkpoint(); rows({'reward': None})").stopped_by is StoppedBy.FAILED
    (path / "artifacts" / "command" / "evidence.jsonl").write_text(json.dumps(ROW) + "\n")
    result = run_script(path, "sys.exit('must not run')", resume=True)
    assert result.stopped_by is StoppedBy.STEPS and result.steps == 1
    again = run_script(path, "sys.exit('must not run')", resume=True)
    assert again.stopped_by is StoppedBy.STEPS and again.last == result.last
    with Run.open(path, write=False) as run:
        assert run.counts()["rollouts"] == 1


def test_a_failed_command_runs_again_on_resume(tmp_path):
    path = tmp_path / "run"
    assert run_script(path, "sys.exit(3)").stopped_by is StoppedBy.FAILED
    assert run_script(path, "checkpoint(); rows({})", resume=True).stopped_by is StoppedBy.STEPS


STUBBORN = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
pathlib.Path(told["out"]).with_name("pids").write_text(f"{os.getpid()} {child.pid}")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["budget", "stop file"])
def test_a_command_that_will_not_end_is_ended_with_all_its_processes(tmp_path, how):
    path = tmp_path / "run"
    pids = path / "artifacts" / "command" / "pids"

    def stop():
        for _ in range(600):
            if pids.exists():
                (path / "stop").touch()
                return
            time.sleep(0.05)

    if how == "stop file":
        threading.Thread(target=stop, daemon=True).start()
    result = run_script(path, STUBBORN, budget=Budget(minutes=2 / 60) if how == "budget" else None)
    assert result.stopped_by is (StoppedBy.BUDGET if how == "budget" else StoppedBy.INTERRUPTED)
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_a_command_has_time_to_save_when_asked_to_stop(tmp_path):
    path = tmp_path / "run"
    script = (
        "def save(*_):\n    checkpoint(); rows({}); sys.exit(0)\nsignal.signal(signal.SIGTERM, save)\ntime.sleep(600)"
    )
    result = run_script(path, script, budget=Budget(minutes=2 / 60))
    assert result.stopped_by is StoppedBy.BUDGET
    assert check_evidence(path / "artifacts" / "command" / "evidence.jsonl") == 1


def test_a_spent_budget_starts_nothing(tmp_path):
    path = tmp_path / "run"
    run_script(path, "sys.exit(1)", budget=Budget(minutes=1e-6))
    with Run.open(path, write=False) as run:
        assert run.state() is State.STOPPED
        assert not list(run.events(kinds=("command",)))


def test_a_command_that_is_no_program_is_named(tmp_path):
    made = recipe("no-such-trainer", "--fast")
    with (
        Run.create(tmp_path / "run", kind="train", config={}) as run,
        pytest.raises(ConfigError, match="no-such-trainer"),
    ):
        train_command(made, run)
    with pytest.raises(ConfigError, match="command"):
        recipe()


# Evidence and checkpoints, looked at alone


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"step": 0}, "step = 0"),
        ({"step": True}, "step = true"),
        ({"reward": "0.5"}, "reward"),
        ({"reward": float("nan")}, "reward = NaN is not a finite number"),
        ({"reward": None}, "reward is null without an unmeasured_reason"),
        ({"schema": 2}, "schema = 2"),
        ({"kept": 1}, "kept = 1 is not true or false"),
        ({"parts": {"a": None}}, "parts"),
        ({"task": ""}, "task"),
        ({"sample": -1}, "sample"),
        ({"group": None}, "group = null"),
    ],
)
def test_a_bad_row_is_named_by_line_and_column(tmp_path, change, said):
    file = tmp_path / "e.jsonl"
    file.write_text(json.dumps(ROW) + "\n\n" + json.dumps({**ROW, **change}) + "\n")
    with pytest.raises(UsageError, match="line 3: ") as e:
        check_evidence(file)
    assert said in str(e.value)


def test_lines_that_are_no_rows(tmp_path):
    file = tmp_path / "e.jsonl"
    file.write_text(
        '{"step": 1\n[1]\n{"split": "train"}\n' + json.dumps({**ROW, "step": 5}) + "\n" + json.dumps(ROW) + "\n"
    )
    with pytest.raises(UsageError) as e:
        check_evidence(file)
    for said in (
        "line 1: not JSON",
        "line 2: not an object but list",
        "line 3: without step, task",
        "line 5: step 1 after step 5",
    ):
        assert said in str(e.value)
    file.write_text("nonsense\n" * 1000)
    with pytest.raises(UsageError, match=r"line 10: not JSON .* \(and more\)$"):
        check_evidence(file)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_good_rows_come_back_whole(tmp_path_factory, rewards):
    file = tmp_path_factory.getbasetemp() / "good.jsonl"
    file.write_text("".join(json.dumps({**ROW, "reward": reward}) + "\n" for reward in rewards))
    assert check_evidence(file) == len(rewards)
    assert [row["reward"] for row in read_evidence(file)] == rewards


def test_pickled_and_sharded_checkpoints(tmp_path):
    with pytest.raises(UsageError, match="no checkpoint at"):
        check_checkpoint(tmp_path / "none")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(UsageError, match=r"pytorch_model.bin is a pickle, which is not read"):
        check_checkpoint(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "one.safetensors", "b": "../two.safetensors"}}')
    with pytest.raises(UsageError, match=r"lacks \.\./two.safetensors, one.safetensors"):
        check_checkpoint(tmp_path)


def test_a_real_model_in_bfloat16_passes_until_it_diverges(tmp_path):
    torch = pytest.importorskip("torch", reason="needs torch (extra train)")
    from tests.models.tiny import make_model, make_tokenizer

    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer)).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="no tokenizer"):
        check_checkpoint(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert check_checkpoint(tmp_path)["parameters"] > 10_000
    with torch.no_grad():
        model.model.norm.weight[3] = float("inf")
    model.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"norm.weight.* not finite"):
        check_checkpoint(tmp_path)


def test_the_example_learns(tmp_path, stage):
    """Plain REINFORCE of the teaching file on a task that can be learnt: the hidden truth rises, not the reward alone."""
    made = recipe(
        sys.executable,
        str(EXAMPLE),
        steps=20,
        groups=1,
        group_size=24,
        lr=3e-3,
        states={"tasks": [str(stage.task)]},
        episode={"max_tokens": 40},
        reward={"parts": {"absolute": 1.0}},
        engine={"threads": 1},
    )
    with Run.create(tmp_path / "run", kind="train", config={"recipe": made.model_dump(mode="json")}) as run:
        result = train_command(made, run, weights=str(stage.policy))
        assert result.stopped_by is StoppedBy.STEPS, result.message
        rows = list(run.rollouts())
    assert result.steps == 20 and len(rows) == 20 * 24
    first, last = ([row["truth"] for row in rows if row["step"] in steps] for steps in ((1, 2, 3), (18, 19, 20)))
    assert sum(last) / len(last) > sum(first) / len(first) + 0.1


def test_a_killed_coevo_takes_its_command_along(tmp_path):
    path = tmp_path / "run"
    (tmp_path / "trainer.py").write_text(WRITER + STUBBORN)
    code = (
        "import sys\nfrom coevo.runs import Run\nfrom coevo.training.command import train_command\nfrom coevo.training.settings import Recipe\n"
        f"made = Recipe(trainer='command', command=(sys.executable, {str(tmp_path / 'trainer.py')!r}))\n"
        f"with Run.create({str(path)!r}, kind='train', config={{}}) as run:\n    train_command(made, run)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    pids = path / "artifacts" / "command" / "pids"
    while not pids.exists() or not pids.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    command, child = map(int, pids.read_text().split())
    process.kill()
    process.wait()
    for _ in range(200):
        if not alive(command):
            break
        time.sleep(0.05)
    assert not alive(command)
    os.kill(child, signal.SIGKILL)  # A grandchild is beyond the kernel's help; ours to clean up here.
