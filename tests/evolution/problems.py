"""Small tasks for tests of the search, written to a folder and judged in the real sandbox."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from coevo.evaluation.judge import Judge
from coevo.evaluation.pool import InlinePool, LocalPool, Pool
from coevo.tasks import load_task
from coevo.tasks.types import Task

START = """\
# EVOLVE-BLOCK-START
A = 1.0
B = 2.0


def curve(x):
    return A * x + B


# EVOLVE-BLOCK-END


def solve(points):
    return [curve(x) for x in points]
"""

SCORE = '''\
def score(output, instance):
    """Ten minus the mean distance to 3 x - 1."""
    points = instance["points"]
    if not isinstance(output, list) or len(output) != len(points):
        raise ValueError("return one number per point")
    miss = sum(abs(float(y) - (3 * x - 1)) for x, y in zip(points, output))
    return {"score": 10 - miss / len(points), "feedback": f"mean distance {miss / len(points):.6g}"}
'''

YAML = """\
name: line
kind: open
entry: solve
statement: |
  Return a list with one number for each of the `points`.
  Fit the line that the score rewards.
direction: max
instances:
  public:
    - points: [0.0, 1.0, 2.0]
  hidden:
    - points: [5.0, 7.0]
limits: {cpu_s: 2, memory_mb: 128}
"""

BASELINE = """\
def solve(points, seconds):
    return [3.0 * x - 1.5 for x in points]
"""


def line_task(folder: Path) -> Task:
    """Kind open: fit a line. The start scores 8.33 on public, 1 on hidden points."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "task.yaml": YAML,
        "program.py": START,
        "score.py": SCORE,
        "baseline.py": BASELINE,
    }.items():
        (folder / name).write_text(text)
    return load_task(folder)


def program(a: float, b: float, note: str = "") -> str:
    """A reply that rewrites the block of the line task."""
    return f"Here:\n\n```python\n# {note}\nA = {a}\nB = {b}\n\n\ndef curve(x):\n    return A * x + B\n```\n"


REPLIES = [
    program(1.5, 1.0),
    program(2.0, 0.5, "closer"),
    program(2.0, 0.5, "the same program with another comment"),
    program(2.5, -0.5),
    "```python\nA = 1.0\nB = 2.0\n\n\ndef curve(x):\n    return 1 // 0\n```",
    "I cannot help with that.",
    "```python\ndef curve(x:\n    return\n```",
    "Let me think about lines for a while.",
    "<<<<<<< SEARCH\nB = 2.0\n=======\nB = 0.0\n>>>>>>> REPLACE",
    "",
]
"""Good rewrites, equal programs with other texts, a crash, a refusal, broken code, prose, a diff, nothing."""


def judges(task: Task) -> partial[Judge]:
    return partial(Judge, task)


def pool_of(task: Task, workers: int) -> Pool:
    return InlinePool(judges(task)) if workers == 0 else LocalPool(workers, judges(task))


SLOW = """\
def total(numbers):
    found = 0
    for n in numbers:
        for _ in range({loops}):
            found += n
        found -= {back} * n
    return found
"""


def timed_task(folder: Path) -> Task:
    """Kind function, with timing: sum a list. The start does twelve times the work of the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "task.yaml": (
            "name: total\nkind: function\nentry: total\nstatement: Return the sum of `numbers`.\n"
            "tests: {public: {sizes: [0, 5]}, hidden: {sizes: [1, 7]}}\ntiming: {size: 20000, inputs: 1}\n"
            "limits: {cpu_s: 5, memory_mb: 128}\n"
        ),
        "program.py": slow(12),
        "reference.py": slow(1),
        "generate.py": "def generate(size, rng):\n    return ([rng.randrange(100) for _ in range(size)],)\n",
    }.items():
        (folder / name).write_text(text)
    return load_task(folder)


def slow(loops: int) -> str:
    """A right program for `timed_task` that needs time in proportion to `loops`."""
    return SLOW.format(loops=loops, back=loops - 1)
