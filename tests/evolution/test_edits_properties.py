"""Properties of edits over generated programs and replies."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evolution.blocks import editable
from coevo.evolution.edits import apply_diff, apply_rewrite
from coevo.evolution.syntax import fault
from coevo.evolution.types import Rejection
from coevo.programs import Program
from tests.evolution.samples import PROGRAMS, outside

PIECES = (
    *(
        "<<<<<<< SEARCH\n",
        "=======\n",
        ">>>>>>> REPLACE\n",
        "<<<<<<< HEAD\n",
        "<<<<<<<< SEARCH\n",
        "```python\n",
        "```\n",
    ),
    *(
        "~~~\n",
        "````\n",
        "<think>\n",
        "</think>\n",
        "<think>",
        "</think>",
        "# EVOLVE-BLOCK-START\n",
        "# EVOLVE-BLOCK-END\n",
    ),
    *(
        "### file: program.py\n",
        "### file: helper.py\n",
        '"""\n',
        "'''",
        "\\",
        "\r\n",
        "\t",
        "    ",
        "\0",
        "\ud800",
        "\n",
    ),
    *(
        "x = 3\n",
        "y = x * 2.5\n",
        "def f(n):\n",
        "    return n\n",
        "\treturn total\n",
        "Here is the code:\n",
        "I'm sorry\n",
    ),
)
replies = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=25).map("".join)
parents = st.sampled_from(sorted(PROGRAMS)).map(PROGRAMS.__getitem__)


def check(proposal, parent):
    """Holds for whatever a model wrote."""
    if proposal.program is None:
        assert isinstance(proposal.rejection, Rejection)
        assert proposal.detail and len(proposal.detail) < 1000
        proposal.detail.encode()
        return
    assert proposal.rejection is None
    assert proposal.program.id != parent.id
    assert dict(proposal.program.files).keys() == dict(parent.files).keys()
    for name, text in proposal.program.files:
        text.encode()
        assert not name.endswith(".py") or fault(text) is None
    assert outside(proposal.program) == outside(parent)


@st.composite
def plausible(draw):
    """A parent, and a reply such as a model might write, with a flaw here and there."""
    parent = draw(parents)
    name, text = draw(st.sampled_from(parent.files))
    lines = text.splitlines()
    rng = draw(st.randoms(use_true_random=False))

    def run():
        at = rng.randrange(len(lines))
        shift = rng.choice(["", "", "", "  ", "\t"])
        taken = [shift + line + rng.choice(["", "", " "]) for line in lines[at : at + rng.randint(1, 4)]]
        return [line.strip() for line in taken] if rng.random() < 0.2 else taken

    def hunk():
        search = run()
        new = [line.replace(*rng.choice([("2", "3"), ("n", "m"), ("+", "-"), ("x", "x")])) for line in search]
        if rng.random() < 0.2:
            new = run()
        return ["<<<<<<< SEARCH", *search, "=======", *new, ">>>>>>> REPLACE"]

    def fence():
        inside = rng.choice([lines, run(), run(), hunk(), ["def f(n):", "    return n + 5"]])
        inside = [line.replace(*rng.choice([("5", "6"), ("2", "9"), ("", "")])) for line in inside]
        return [
            rng.choice(["```python", "```", "~~~py", "````Python"]),
            *inside,
            rng.choice(["```", "```", "~~~", "````"]),
        ]

    makers = [
        hunk,
        hunk,
        fence,
        fence,
        lambda: [f"### file: {name}"],
        lambda: ["Some words."],
        lambda: ["<think>", *fence(), "</think>"],
    ]
    out = [line for _ in range(rng.randint(1, 5)) for line in rng.choice(makers)()]
    if rng.random() < 0.3:
        del out[rng.randrange(len(out))]
    if rng.random() < 0.1:
        out.insert(rng.randrange(len(out) + 1), rng.choice(PIECES).rstrip("\n"))
    return parent, rng.choice(["\n", "\n", "\r\n"]).join(out)


@given(plausible() | st.tuples(parents, replies))
@settings(max_examples=500)
def test_any_reply_gives_a_valid_child_or_a_reason(case):
    parent, reply = case
    check(apply_rewrite(parent, reply), parent)
    check(apply_diff(parent, reply), parent)


@given(st.text(), st.text())
def test_any_text_is_a_parent(source, reply):
    parent = Program.of(source)
    for proposal in (apply_rewrite(parent, reply), apply_diff(parent, reply)):
        assert (proposal.program is None) == (proposal.rejection is not None)


statements = st.sampled_from(
    ["x = 1", "y = x", "x += 2", "print(x)", "pass", "z = [x, y]", "x = '''a\n  b'''", "if x:\n    y = 2"]
)


@st.composite
def edited(draw):
    """A program of distinct-looking lines, and the same with some runs of lines replaced: with the blocks that say so."""
    lines = draw(st.lists(statements, min_size=1, max_size=12))
    before = [f"{line}  # {i}" if "\n" not in line else line for i, line in enumerate(lines)]
    marked = draw(st.booleans())
    hunks: list[str] = []
    after: list[str] = []
    i = 0
    while i < len(before):
        size = draw(st.integers(1, 3))
        run = before[i : i + size]
        unique = "\n".join(before).count("\n".join(run)) == 1
        if unique and draw(st.booleans()):
            new = draw(st.lists(statements, max_size=3))
            sides = ("".join(f"{line}\n" for line in side) for side in (run, new))
            hunks.append("<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n".format(*sides))
            after += new
        else:
            after += run
        i += size
    draw(st.randoms(use_true_random=False)).shuffle(hunks)
    texts = ["".join(f"{line}\n" for line in side) for side in (before, after)]
    if marked:
        texts = [f"import os\n# EVOLVE-BLOCK-START\n{text}# EVOLVE-BLOCK-END\nprint(os)\n" for text in texts]
    return (*texts, "Some words.\n".join(hunks))


@given(edited(), st.booleans())
@settings(max_examples=300)
def test_a_diff_reproduces_the_edit_it_describes(case, crlf):
    before, after, reply = case
    if crlf:
        before, after = before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    parent = Program.of(before)
    proposal = apply_diff(parent, reply)
    if proposal.program is not None:
        assert proposal.program.source == after
    elif "<<<" in reply:
        assert proposal.rejection in (Rejection.UNCHANGED, Rejection.AMBIGUOUS)
        if proposal.rejection is Rejection.UNCHANGED:
            assert Program.of(after).id == parent.id
    else:
        assert proposal.rejection in (Rejection.EMPTY, Rejection.NO_CODE)


@given(edited())
def test_applying_is_atomic(case):
    before, _, reply = case
    parent = Program.of(before)
    bad = reply + "<<<<<<< SEARCH\nnowhere = 0\n=======\n>>>>>>> REPLACE\n"
    proposal = apply_diff(parent, bad)
    assert proposal.program is None
    assert proposal.rejection in (Rejection.NO_MATCH, Rejection.AMBIGUOUS)


@given(edited(), st.sampled_from(["    ", "  ", "\t"]))
def test_a_uniform_shift_of_a_whole_diff_is_undone(case, shift):
    before, _, reply = case
    if "'''" in before + reply:
        return
    shifted = "".join(
        line if line[:7] in ("<<<<<<<", "=======", ">>>>>>>", "Some wo") else shift + line
        for line in reply.splitlines(True)
    )
    plain, moved = apply_diff(Program.of(before), reply), apply_diff(Program.of(before), shifted)
    assert moved.program == plain.program


@given(parents, st.integers(0, 2**32))
def test_a_rewrite_of_the_block_or_of_the_file_gives_the_same(parent, seed):
    """Take a valid child made otherwise, write it out both ways, and read it back."""
    from coevo.evolution.operators import mutate

    child = mutate(parent, random.Random(seed)).program
    changed = next(name for name, text in child.files if text != dict(parent.files)[name])
    text = dict(child.files)[changed]
    head = f"### file: {changed}\n"
    whole = apply_rewrite(parent, f"{head}```python\n{text}\n```\n")
    assert whole.program.id == child.id
    spans = editable(child)[changed]
    if len(spans) == 1:
        inner = apply_rewrite(parent, f"{head}```\n{text[spans[0][0] : spans[0][1]]}\n```\n")
        assert inner.program.id == child.id
