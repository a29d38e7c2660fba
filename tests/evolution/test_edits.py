"""Replies as models really write them, good and bad: what becomes of each, and the reason that is given."""

import ast

import pytest

from coevo.evolution.edits import apply_diff, apply_rewrite
from coevo.evolution.types import Edit, Rejection
from coevo.programs import Program

BLOCKED = Program.of(
    """\
import math

# EVOLVE-BLOCK-START
def area(r):
    return 3 * r * r
# EVOLVE-BLOCK-END


def report(r):
    return f"{area(r)} {math.pi}"
"""
)
OPEN = Program.of(
    "def area(r):\n    x = r\n    y = r\n    return 3 * x * y\n\n\ndef other(r):\n    x = r\n    return x\n"
)
METHOD = Program.of(
    """\
class Shape:
    # EVOLVE-BLOCK-START
    def area(self, r):
        return 3 * r * r
    # EVOLVE-BLOCK-END

    def name(self):
        return "shape"
"""
)
PAIR = Program.of(
    {
        "program.py": "import helper\n\n\ndef area(r):\n    return helper.square(r)\n",
        "helper.py": "def square(r):\n    return r * r\n",
    }
)
GOOD = "def area(r):\n    return math.pi * r * r\n"
DOCSTRING = '''def area(r):
    """Area of a circle.

```
area(1)
```

```python
area(2)
```
    """
    return 3.14 * r * r
'''


def fence(code, tag="python", marks="```"):
    return f"{marks}{tag}\n{code}{marks}\n"


def hunk(search, replace, opening="<<<<<<< SEARCH", middle="=======", closing=">>>>>>> REPLACE"):
    return f"{opening}\n{search}{middle}\n{replace}{closing}\n"


DRAFT = fence("def area(r):\n    return 0\n")
USAGE = fence("print(area(2.0))\n")
SHELL = fence("python program.py\n", "bash")
OUTPUT = fence("12.56\n", "text")
TWO = fence("x = 2\n")
SQUARE = fence("def square(r):\n    return r ** 2\n")
ALIAS = fence("import helper\n\narea = helper.square\n")
EDIT = hunk("    return 3 * r * r\n", "    return math.pi * r * r\n")
WHOLE = BLOCKED.source.replace("3 * r", "math.pi * r")

REWRITES_OF_BLOCK = {
    "block content": fence(GOOD),
    "whole file with markers": fence(WHOLE),
    "whole file without markers": fence("".join(x for x in WHOLE.splitlines(True) if "EVOLVE" not in x)),
    "block with its markers": fence(f"# EVOLVE-BLOCK-START\n{GOOD}# EVOLVE-BLOCK-END\n"),
    "capitals": fence(GOOD, "PYTHON"),
    "py3 tag": fence(GOOD, "python3"),
    "no tag": fence(GOOD, ""),
    "wrong tag": fence(GOOD, "javascript"),
    "tag in braces": fence(GOOD, "{.python .numberLines}"),
    "title": fence(GOOD, "python title=program.py"),
    "crlf": fence(GOOD).replace("\n", "\r\n"),
    "bare carriage returns": fence(GOOD).replace("\n", "\r"),
    "tildes": fence(GOOD, marks="~~~"),
    "four backticks": fence(GOOD, marks="````"),
    "fence without last newline": fence(GOOD).rstrip("\n"),
    "indented fence": "1. Here:\n" + "".join("   " + x for x in fence(GOOD).splitlines(True)),
    "prose around": f"Sure! Here is it.\n\n{fence(GOOD)}\nIt uses `math.pi`.",
    "example first, answer second": f"Like this:\n{DRAFT}\nBetter:\n{fence(GOOD)}",
    "usage after the answer": f"{fence(GOOD)}\nUse it like so:\n{USAGE}",
    "shell after the answer": f"{fence(GOOD)}\nRun it:\n{SHELL}",
    "output after the answer": f"{fence(GOOD)}\nIt prints:\n{OUTPUT}",
    "think": f"<think>\n{DRAFT}</think>\n{fence(GOOD)}",
    "think after the answer": f"{fence(GOOD)}\n<think>\n{DRAFT}</think>",
    "thinking in capitals": f"<THINKING>\n{DRAFT}</THINKING>\n{fence(GOOD)}",
    "reasoning": f"<reasoning>draft\n{DRAFT}</reasoning>{fence(GOOD)}",
    "think opened by the template": f"draft\n{DRAFT}</think>\n{fence(GOOD)}",
    "think with an unclosed fence": f"<think>\n```python\ndef area(r):\n</think>\n{fence(GOOD)}",
    "nested think": f"<think>\na <think> b </think>\n{DRAFT}</think>\n{fence(GOOD)}",
    "markdown around": fence(f"Here:\n{fence(GOOD)}", "markdown", "````"),
    "markdown around, same length": fence(f"Here:\n{fence(GOOD)}", "markdown"),
    "fence in a fence": fence(fence(GOOD), ""),
    "file line": f"### file: program.py\n{fence(GOOD)}",
    "stray fence at the end": fence(GOOD) + "```\n",
    "indented content": fence("".join("    " + x for x in GOOD.splitlines(True))),
    "empty fence, then the answer": fence("") + fence(GOOD),
    "answer, then empty fence": fence(GOOD) + fence(""),
    "no fence, but plainly the program": GOOD,
}


@pytest.mark.parametrize("reply", REWRITES_OF_BLOCK.values(), ids=REWRITES_OF_BLOCK)
def test_a_readable_rewrite_gives_exactly_the_wanted_program(reply):
    proposal = apply_rewrite(BLOCKED, reply)
    assert proposal.rejection is None, proposal.detail
    assert proposal.program.source == WHOLE
    assert proposal.edit is Edit.REWRITE


@pytest.mark.parametrize("tag", ["python", ""])
def test_backticks_in_a_docstring_do_not_end_the_fence(tag):
    proposal = apply_rewrite(BLOCKED, f"So:\n{fence(DOCSTRING, tag)}\nDone. It's good, isn't it?")
    assert DOCSTRING in proposal.program.source


def test_a_tag_inside_code_is_code():
    code = 'def area(r):\n    """\n<think>\nnot a thought\n</think>\n    """\n    return 3.5 * r * r\n'
    assert code in apply_rewrite(BLOCKED, fence(code)).program.source


def test_a_crossover_reads_like_a_rewrite():
    assert apply_rewrite(BLOCKED, fence(GOOD), Edit.CROSSOVER).edit is Edit.CROSSOVER


def test_what_is_written_from_the_statement_alone_is_the_whole_file():
    written = apply_rewrite(BLOCKED, fence(GOOD), Edit.WRITE)
    assert written.edit is Edit.WRITE and written.program == Program.of(GOOD)
    again = apply_rewrite(BLOCKED, fence(BLOCKED.source), Edit.WRITE)
    assert again.program is not None and again.program.id == BLOCKED.id
    assert "EVOLVE" not in again.program.source
    both = apply_rewrite(PAIR, fence(SQUARE[10:-4]), Edit.WRITE)
    assert both.program is not None and dict(both.program.files)["helper.py"] == dict(PAIR.files)["helper.py"]
    assert apply_rewrite(BLOCKED, "I cannot help with that.", Edit.WRITE).rejection is Rejection.REFUSAL


def test_a_rewrite_keeps_the_line_ends_of_the_file():
    parent = Program.of(BLOCKED.source.replace("\n", "\r\n"))
    assert apply_rewrite(parent, fence(GOOD)).program.source == WHOLE.replace("\n", "\r\n")


def test_a_method_block_takes_content_at_either_indentation():
    code = 'def area(self, r):\n    """In\n  metres."""\n    return 3.14 * r * r\n'
    dedented = apply_rewrite(METHOD, fence(code))
    assert "    def area(self, r):\n" in dedented.program.source
    assert '"""In\n  metres."""' in dedented.program.source
    indented = apply_rewrite(METHOD, fence("    def area(self, r):\n        return 3.14 * r * r\n"))
    assert indented.program.source == METHOD.source.replace("3 * r", "3.14 * r")


def test_a_program_without_markers_is_replaced_as_a_whole():
    assert apply_rewrite(OPEN, fence(GOOD)).program.source == GOOD
    marked = fence(f"# EVOLVE-BLOCK-START\n{GOOD}# EVOLVE-BLOCK-END\n")
    assert apply_rewrite(OPEN, marked).program.source == GOOD


def test_several_files_are_rewritten_by_name():
    reply = f"### file: helper.py\n{SQUARE}"
    both = apply_rewrite(PAIR, reply + f"**File: `program.py`**\n{ALIAS}")
    assert dict(both.program.files) == {
        "helper.py": "def square(r):\n    return r ** 2\n",
        "program.py": "import helper\n\narea = helper.square\n",
    }
    one = apply_rewrite(PAIR, reply)
    assert dict(one.program.files)["program.py"] == PAIR.source
    named_in_tag = apply_rewrite(PAIR, fence("def square(r):\n    return r ** 2\n", "python helper.py"))
    assert named_in_tag.program == one.program
    unnamed = apply_rewrite(PAIR, fence("area = abs\n"))
    assert unnamed.program.source == "area = abs\n"


def test_two_blocks_are_rewritten_together():
    source = "# EVOLVE-BLOCK-START\na = 1\n# EVOLVE-BLOCK-END\nb = 2\n# EVOLVE-BLOCK-START\nc = 3\n# EVOLVE-BLOCK-END\n"
    parent = Program.of(source)
    wanted = source.replace("a = 1", "a = 5").replace("c = 3", "c = 7")
    assert apply_rewrite(parent, fence(wanted)).program.source == wanted
    assert apply_rewrite(parent, fence("a = 5\n")).rejection is Rejection.MALFORMED


BAD_REWRITES = {
    "empty": ("", Rejection.EMPTY),
    "blank": (" \n\t\n", Rejection.EMPTY),
    "prose": ("The constant should be pi. That would be better.", Rejection.NO_CODE),
    "prose with inline code": ("Use `math.pi` instead of ```3```.", Rejection.NO_CODE),
    "one word that parses": ("Yes", Rejection.NO_CODE),
    "refusal": ("I'm sorry, but I can't help with that.", Rejection.REFUSAL),
    "refusal, typographic": ("I’m unable to do that.", Rejection.REFUSAL),
    "unclosed fence": (f"```python\n{GOOD}", Rejection.TRUNCATED),
    "only an opening fence": ("```python\n", Rejection.TRUNCATED),
    "example complete, answer cut": (f"{DRAFT}Now:\n```python\ndef area(", Rejection.TRUNCATED),
    "only an empty fence": ("```python\n```", Rejection.EMPTY),
    "blank fence": ("```python\n\n  \n```", Rejection.EMPTY),
    "only a comment": (fence("# as before\n"), Rejection.EMPTY),
    "unclosed think": (f"<think>\n{fence(GOOD)}", Rejection.TRUNCATED),
    "only think": (f"<think>\n{fence(GOOD)}</think>\n", Rejection.EMPTY),
    "code in think, prose outside": (f"<think>\n{fence(GOOD)}</think>\nI would use pi.", Rejection.NO_CODE),
    "only the start marker": (fence(f"# EVOLVE-BLOCK-START\n{GOOD}"), Rejection.MALFORMED),
    "only the end marker": (fence(f"{GOOD}# EVOLVE-BLOCK-END\n"), Rejection.MALFORMED),
    "two blocks for one": (fence(f"# EVOLVE-BLOCK-START\n{GOOD}# EVOLVE-BLOCK-END\n" * 2), Rejection.MALFORMED),
    "block in a block": (fence(f"# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n{GOOD}"), Rejection.MALFORMED),
    "empty block": (fence("# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n"), Rejection.EMPTY),
    "outside changed": (fence(WHOLE.replace("{math.pi}", "{math.e}")), Rejection.OUTSIDE_BLOCK),
    "import added outside": (fence("import random\n" + WHOLE), Rejection.OUTSIDE_BLOCK),
    "outside changed, no markers": (fence(GOOD + "\n\ndef report(r):\n    return 0\n"), Rejection.OUTSIDE_BLOCK),
    "syntax": (fence("def area(r)\n    return 1\n"), Rejection.SYNTAX),
    "return outside a function": (fence("return 1\n"), Rejection.SYNTAX),
    "elided with dots": (fence("def area(r):\n    ... rest as before ...\n"), Rejection.SYNTAX),
    "json": (fence('{"code": }\n', "json"), Rejection.SYNTAX),
    "deep nesting": (fence("x = " + "(" * 5000 + ")" * 5000 + "\n"), Rejection.SYNTAX),
    "deep operators": (fence("x = " + "-" * 200_000 + "1\n"), Rejection.SYNTAX),
    "huge integer": (fence("x = " + "9" * 5000 + "\n"), Rejection.SYNTAX),
    "search blocks in a fence": (fence(EDIT), Rejection.SYNTAX),
    "nul": (fence("def area(r):\n    return '\0'\n"), Rejection.BAD_TEXT),
    "lone surrogate": (fence("def area(r):\n    return '\ud800'\n"), Rejection.BAD_TEXT),
    "a megabyte of text": (fence("x = 1  # " + "y" * (1 << 20) + "\n"), Rejection.TOO_LARGE),
    "two megabytes": ("word " * 500_000, Rejection.TOO_LARGE),
    "the parent": (fence(BLOCKED.source), Rejection.UNCHANGED),
    "the parent, reformatted": (fence("def area( r ):\n\n    return 3*r*r   # pi\n"), Rejection.UNCHANGED),
    "unknown file": (f"### file: other.py\n{fence(GOOD)}", Rejection.UNKNOWN_FILE),
}


@pytest.mark.parametrize(("reply", "reason"), BAD_REWRITES.values(), ids=BAD_REWRITES)
def test_a_bad_rewrite_is_rejected_with_its_reason(reply, reason):
    proposal = apply_rewrite(BLOCKED, reply)
    assert proposal.rejection is reason, proposal.detail
    assert proposal.program is None
    assert 10 < len(proposal.detail) < 600 and proposal.detail.endswith(".")


def test_a_frozen_file_and_an_unknown_file_are_refused():
    parent = Program.of({"program.py": BLOCKED.source, "helper.py": "x = 1\n"})
    assert apply_rewrite(parent, f"### file: helper.py\n{TWO}").rejection is Rejection.OUTSIDE_BLOCK
    assert apply_diff(parent, "### file: helper.py\n" + hunk("x = 1\n", "x = 2\n")).rejection is Rejection.OUTSIDE_BLOCK
    reply = f"### file: helper.py\n{TWO}### file: new.py\n{TWO}"
    assert apply_rewrite(PAIR, reply).rejection is Rejection.UNKNOWN_FILE


def test_a_parent_with_broken_markers_is_an_answer_not_a_crash():
    parent = Program.of("# EVOLVE-BLOCK-START\nx = 1\n")
    assert apply_rewrite(parent, fence("x = 2\n")).rejection is Rejection.MALFORMED
    assert apply_diff(parent, hunk("x = 1\n", "x = 2\n")).rejection is Rejection.MALFORMED


GOOD_DIFFS = {
    "plain": EDIT,
    "crlf": EDIT.replace("\n", "\r\n"),
    "trailing space after markers": EDIT.replace("SEARCH", "SEARCH  ")
    .replace("=======", "======= ")
    .replace("REPLACE", "REPLACE\t"),
    "indented markers": EDIT.replace("<<<", "  <<<", 1).replace("=======", "  =======").replace(">>>>>>>", "  >>>>>>>"),
    "in a fence": fence(EDIT),
    "in a diff fence, prose around": f"I use pi:\n{fence(EDIT, 'diff')}\nDone.",
    "git names": EDIT.replace("SEARCH", "HEAD").replace("REPLACE", "feature/pi"),
    "bare markers": EDIT.replace(" SEARCH", "").replace(" REPLACE", ""),
    "think": f"<think>{hunk('x', 'y')}</think>{EDIT}",
    "draft in think": "<think>\n" + hunk("def area(r):\n", "def area(q):\n") + "</think>\n" + EDIT,
    "no newline at the end": EDIT.rstrip("\n"),
    "search with context": hunk("def area(r):\n    return 3 * r * r\n", "def area(r):\n    return math.pi * r * r\n"),
    "context reaches over a marker": hunk(
        "# EVOLVE-BLOCK-START\ndef area(r):\n    return 3 * r * r\n",
        "# EVOLVE-BLOCK-START\ndef area(r):\n    return math.pi * r * r\n",
    ),
    "trailing space in search": hunk("    return 3 * r * r  \n", "    return math.pi * r * r\n"),
    "blank line before": hunk("\n    return 3 * r * r\n", "\n    return math.pi * r * r\n"),
    "indentation lost": hunk("return 3 * r * r\n", "return math.pi * r * r\n"),
    "indentation too deep": hunk("        return 3 * r * r\n", "        return math.pi * r * r\n"),
    "tab for spaces": hunk("\treturn 3 * r * r\n", "\treturn math.pi * r * r\n"),
    "tabs and a deeper block": hunk("def area(r):\n\treturn 3 * r * r\n", "def area(r):\n\treturn math.pi * r * r\n"),
    "file line": f"### file: program.py\n{EDIT}",
}


@pytest.mark.parametrize("reply", GOOD_DIFFS.values(), ids=GOOD_DIFFS)
def test_a_readable_diff_gives_exactly_the_wanted_program(reply):
    proposal = apply_diff(BLOCKED, reply)
    assert proposal.rejection is None, proposal.detail
    assert proposal.program.source == WHOLE
    assert proposal.edit is Edit.DIFF


BAD_DIFFS = {
    "empty": ("", Rejection.EMPTY),
    "prose": ("Use pi.", Rejection.NO_CODE),
    "refusal": ("As an AI, I cannot do that.", Rejection.REFUSAL),
    "a rewrite instead": (fence(GOOD), Rejection.NO_CODE),
    "a unified diff": (fence("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", "diff"), Rejection.NO_CODE),
    "eight chevrons": (EDIT.replace("<<<<<<<", "<<<<<<<<"), Rejection.MALFORMED),
    "eight closing chevrons": (EDIT.replace(">>>>>>>", ">>>>>>>>"), Rejection.MALFORMED),
    "six chevrons": (EDIT.replace("<<<<<<<", "<<<<<<"), Rejection.MALFORMED),
    "truncated in search": ("<<<<<<< SEARCH\n    return 3 * r * r\n", Rejection.TRUNCATED),
    "truncated in replace": (EDIT.partition(">>>")[0], Rejection.TRUNCATED),
    "second truncated": (EDIT + "<<<<<<< SEARCH\ndef area(r):\n", Rejection.TRUNCATED),
    "marker glued to code": (EDIT.replace("\n>>>>>>>", ">>>>>>>"), Rejection.MALFORMED),
    "second separator": (hunk("    return 3 * r * r\n", "    return 1\n=======\n    return 2\n"), Rejection.MALFORMED),
    "no separator": (EDIT.replace("=======\n", ""), Rejection.MALFORMED),
    "eight equals signs": (EDIT.replace("=======", "========"), Rejection.MALFORMED),
    "three-way conflict": (EDIT.replace("=======", "||||||| base\n    x\n======="), Rejection.MALFORMED),
    "opens twice": ("<<<<<<< SEARCH\n" + EDIT, Rejection.MALFORMED),
    "closes before it opens": (">>>>>>> REPLACE\n" + EDIT, Rejection.MALFORMED),
    "no match": (hunk("    return 2 * r * r\n", "    return 1\n"), Rejection.NO_MATCH),
    "extra comment": (hunk("    return 3 * r * r  # area\n", "    return 1\n"), Rejection.NO_MATCH),
    "part of a line": (hunk("3 * r * r\n", "4 * r * r\n"), Rejection.NO_MATCH),
    "one of two matches": (EDIT + hunk("    return 7\n", "    return 8\n"), Rejection.NO_MATCH),
    "uneven indentation": (
        hunk("  def area(r):\n    return 3 * r * r\n", "def area(r):\n    return 1\n"),
        Rejection.NO_MATCH,
    ),
    "outside": (hunk('    return f"{area(r)} {math.pi}"\n', "    return 1\n"), Rejection.OUTSIDE_BLOCK),
    "outside, lost indent": (hunk('return f"{area(r)} {math.pi}"\n', "return 1\n"), Rejection.OUTSIDE_BLOCK),
    "marker removed": (hunk("# EVOLVE-BLOCK-START\n", ""), Rejection.OUTSIDE_BLOCK),
    "reaches over the end": (
        hunk("    return 3 * r * r\n# EVOLVE-BLOCK-END\n", "    return 1\n"),
        Rejection.OUTSIDE_BLOCK,
    ),
    "marker added": (hunk("    return 3 * r * r\n", "    return 1\n# EVOLVE-BLOCK-END\n"), Rejection.MALFORMED),
    "empty search": (hunk("", "    x = 1\n"), Rejection.MALFORMED),
    "blank search": (hunk("\n  \n", "    x = 1\n"), Rejection.MALFORMED),
    "same place twice": (EDIT + hunk("    return 3 * r * r\n", "    return 1\n"), Rejection.OVERLAP),
    "overlapping": (
        hunk("def area(r):\n    return 3 * r * r\n", "def area(q):\n    return q\n") + EDIT,
        Rejection.OVERLAP,
    ),
    "deletes the body": (hunk("    return 3 * r * r\n", ""), Rejection.SYNTAX),
    "breaks syntax": (hunk("    return 3 * r * r\n", "    return (3 * r\n"), Rejection.SYNTAX),
    "changes nothing": (hunk("    return 3 * r * r\n", "    return 3 * r * r\n"), Rejection.UNCHANGED),
    "changes a comment": (hunk("    return 3 * r * r\n", "    return 3 * r * r  # pi\n"), Rejection.UNCHANGED),
    "nul": (EDIT.replace("math.pi", "'\0'"), Rejection.BAD_TEXT),
    "lone surrogate": (EDIT.replace("math.pi", "'\udcff'"), Rejection.BAD_TEXT),
    "too many blocks": (EDIT * 200, Rejection.TOO_LARGE),
    "too much text": (EDIT.replace("math.pi", "1" + "+1" * 600_000), Rejection.TOO_LARGE),
    "unknown file": (f"### file: nowhere.py\n{EDIT}", Rejection.UNKNOWN_FILE),
    "unclosed think": (f"<think>\n{EDIT}", Rejection.TRUNCATED),
}


@pytest.mark.parametrize(("reply", "reason"), BAD_DIFFS.values(), ids=BAD_DIFFS)
def test_a_bad_diff_is_rejected_with_its_reason(reply, reason):
    proposal = apply_diff(BLOCKED, reply)
    assert proposal.rejection is reason, proposal.detail
    assert proposal.program is None
    assert 10 < len(proposal.detail) < 600 and proposal.detail.endswith(".")


def test_an_ambiguous_search_is_rejected_and_a_longer_one_is_not():
    ambiguous = apply_diff(OPEN, hunk("    x = r\n", "    x = 2 * r\n"))
    assert ambiguous.rejection is Rejection.AMBIGUOUS
    assert "lines 2, 8" in ambiguous.detail
    assert apply_diff(OPEN, hunk("x = r\n", "x = 2 * r\n")).rejection is Rejection.AMBIGUOUS
    clear = apply_diff(OPEN, hunk("    x = r\n    return x\n", "    return r\n"))
    assert clear.program.source == OPEN.source.replace("    x = r\n    return x\n", "    return r\n")


def test_a_match_inside_the_block_is_meant_when_another_lies_outside():
    source = "# EVOLVE-BLOCK-START\ndef f():\n    return 1\n# EVOLVE-BLOCK-END\ndef g():\n    return 1\n"
    changed = apply_diff(Program.of(source), hunk("    return 1\n", "    return 2\n"))
    assert changed.program.source == source.replace("return 1", "return 2", 1)


def test_a_deletion_leaves_no_blank_line():
    assert apply_diff(OPEN, hunk("    y = r\n", "")).program.source == OPEN.source.replace("    y = r\n", "")


def test_several_blocks_apply_together_whatever_their_order():
    first, second = hunk("    y = r\n", "    y = r + 1\n"), hunk("    return 3 * x * y\n", "    return 4 * x * y\n")
    wanted = OPEN.source.replace("y = r", "y = r + 1").replace("3 *", "4 *")
    assert apply_diff(OPEN, first + second).program.source == wanted
    assert apply_diff(OPEN, second + "and\n" + first).program.source == wanted


def test_blocks_may_share_context():
    reply = hunk("    x = r\n    y = r\n", "    x = r + 1\n    y = r\n") + hunk(
        "    y = r\n    return 3 * x * y\n", "    y = r\n    return x * y\n"
    )
    assert apply_diff(OPEN, reply).program.source == OPEN.source.replace("x = r", "x = r + 1", 1).replace("3 * ", "")


def test_an_insertion_by_repeating_a_line():
    reply = hunk("    y = r\n", "    y = r\n    y += 1\n")
    assert apply_diff(OPEN, reply).program.source == OPEN.source.replace("    y = r\n", "    y = r\n    y += 1\n")


def test_an_empty_search_fills_an_empty_block():
    parent = Program.of("x = 1\n# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n")
    assert apply_diff(parent, hunk("", "y = 2\n")).program.source == (
        "x = 1\n# EVOLVE-BLOCK-START\ny = 2\n# EVOLVE-BLOCK-END\n"
    )
    assert apply_diff(Program.of(""), hunk("", "y = 2\n")).program.source == "y = 2\n"


def test_lost_indentation_is_restored_in_every_line():
    source = "def f(n):\n    for i in range(n):\n        a = i\n        b = a\n    return b\n"
    reply = hunk("a = i\nb = a\n", "if i:\n    a = i\n\nb = 2\n")
    assert apply_diff(Program.of(source), reply).program.source == (
        "def f(n):\n    for i in range(n):\n        if i:\n            a = i\n\n        b = 2\n    return b\n"
    )


def test_spaces_for_tabs():
    source = "def f(n):\n\tfor i in range(n):\n\t\ta = i\n\treturn a\n"
    reply = hunk("    for i in range(n):\n        a = i\n", "    for i in range(n):\n        a = 2 * i\n")
    assert apply_diff(Program.of(source), reply).program.source == source.replace("a = i", "a = 2 * i")


def test_line_ends_of_the_file_are_kept():
    parent = Program.of(OPEN.source.replace("\n", "\r\n"))
    reply = hunk("    y = r\n", "    y = r + 1\n    y = y - 1\n")
    assert apply_diff(parent, reply).program.source == (
        OPEN.source.replace("    y = r\n", "    y = r + 1\n    y = y - 1\n").replace("\n", "\r\n")
    )


def test_a_file_without_last_newline():
    parent = Program.of("x = 1\ny = 2")
    assert apply_diff(parent, hunk("y = 2\n", "y = 2\nz = 3\n")).program.source == "x = 1\ny = 2\nz = 3\n"


def test_backticks_and_other_headings_inside_a_block_are_text():
    source = 'def f():\n    """Title\n========\n```\nx\n```\n    """\n    return 1\n'
    reply = fence(hunk("========\n```\nx\n```\n", "========\n```\ny\n```\n"))
    assert apply_diff(Program.of(source), reply).program.source == source.replace("\nx\n", "\ny\n")


def test_details_tell_the_model_what_to_do():
    near = apply_diff(BLOCKED, hunk("    return 3 * r * R\n", "    return 1\n")).detail
    assert "line 5: `return 3 * r * r`" in near
    indent = apply_diff(OPEN, hunk("    x = r\n        y = r\n", "    x = 1\n")).detail
    assert "line 2" in indent and "indent" in indent
    syntax = apply_rewrite(BLOCKED, fence("def area(r)\n    return 1\n")).detail
    assert "line 4 of program.py" in syntax and "def area(r)" in syntax
    assert "repeat it in REPLACE" in apply_diff(BLOCKED, hunk("", "x\n")).detail


def test_a_diff_names_its_file():
    edit = hunk("    return r * r\n", "    return r ** 2\n")
    assert dict(apply_diff(PAIR, f"### file: helper.py\n{fence(edit)}").program.files)["helper.py"].endswith("r ** 2\n")
    unnamed = apply_diff(PAIR, edit)
    assert unnamed.rejection is Rejection.NO_MATCH and "### file: helper.py" in unnamed.detail


@pytest.mark.parametrize(
    "text",
    [
        "```\n" * 250_000,
        "```py\nx\n```\n" * 90_000,
        "<think></think>" * 66_000,
        "x</think>" * 110_000 + " ",
        "```\n'''\n" * 120_000,
        '```\n"""\n```\n"""x"""\n' * 50_000,
        "`" * 1_000_000,
        '\\"' * 500_000,
        "```markdown\n" * 80_000,
        "<<<<<<< SEARCH\n" * 66_000,
        "<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n" * 24_000,
        "=======\n" * 125_000,
        hunk("x = 1\n" * 100_000, "y\n"),
        hunk("\n" * 900_000 + "x\n", "\n" * 1000),
        fence("\n" * 999_000),
        "#" * 1_000_000,
        fence("x" * 1_000_000 + "\n"),
        fence("[" * 1_000_000 + "\n"),
        fence("'''\n" + "\\'''" * 200_000),
    ],
    ids=range(19),
)
def test_a_megabyte_of_anything_is_an_answer(text):
    parent = Program.of("x = 1\n" * 5000 + "# EVOLVE-BLOCK-START\ny = 2\n# EVOLVE-BLOCK-END\n")
    for apply in (apply_rewrite, apply_diff):
        proposal = apply(parent, text)
        assert (proposal.program is None) == (proposal.rejection is not None)
        if proposal.program is not None:
            ast.parse(proposal.program.source)
