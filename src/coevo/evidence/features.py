"""Numbers read off prompts and responses while they stream by. Texts are never kept; a column `text.NAME` is.

Of every row:

    text.chars            characters of the response
    text.thinking         share of them inside <think>...</think> (of templates that open it in the prompt: before </think>)
    text.opening          code of the answer's first 40 characters (case, digits and space do not count)
    text.self_test        1 where it tests its own work: assertions beside the code, or a command that runs tests
    text.search_first     1 where something was searched or read before the first edit, 0 where not; missing where nothing is edited
    text.answer_source    where answers could be had from: 1 the repository's history, 2 hidden tests or answers, 4 the network (sum);
                          what the prompt itself mentions is nobody's discovery and does not count

Of rows that are looked at in detail (`coevo.evidence.sampling`: whole groups, some 200,000 rows of a larger source):

    text.repetition       share of 4-grams of words (of the last 1,000 words) that occurred before
    text.compress         compressed over plain size of the last 4,000 bytes (zlib, level 1); missing under 200 bytes
    text.sketch1..8       min-wise hashes of the set of 3-grams of words: two responses of one step agree in a column with the probability of
                          their Jaccard similarity (`coevo.evidence.sketch`)
    text.shape            code of the normal form of the response's program (its last Python fence, its edits, or all of it where it is bare
                          code): equal solutions have equal codes
    text.copies_parent    1 where that program is one that the prompt shows; missing where it shows none
    text.copies_tests     share of the expected outputs shown in the prompt that the program holds as literals (outside assertions, prints,
                          comments and docstrings); missing where fewer than two telling ones are shown

"Code" is a CRC-32: a number that is the same for the same thing. `prompt_code` is the code by which prompts are known.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coevo.evidence.sketch import SKETCHES, sketches
from coevo.programs import normal_form

EVERY_ROW = (
    *("text.chars", "text.thinking", "text.opening", "text.self_test", "text.search_first", "text.answer_source"),
)
IN_DETAIL = (
    *("text.repetition", "text.compress", *(f"text.sketch{i + 1}" for i in range(SKETCHES))),
    *("text.shape", "text.copies_parent", "text.copies_tests"),
)

OPENING = 40
MOST_CODE = 20_000
"""Characters of a program that are looked at."""
MOST_LINE = 500
"""Characters of a prompt's line in which an expected output is searched for."""
MOST_TEXT = 200_000
"""Characters of a response or a prompt in which things are searched for."""

HISTORY, HIDDEN, NETWORK = 1, 2, 4

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_BARE = re.compile(r"\s*(?:def |class |import |from \w+ import |@|#|\w+ = )")
_DIGITS = re.compile(r"\d+")

_TESTS = (
    "assert ",
    "assert(",
    "unittest",
    "pytest",
    "doctest",
    "self.assert",
    "npm test",
    "cargo test",
    "go test",
    "make test",
)
_SEARCHES = re.compile(
    r"\b(?:grep|rg|ag|find|ls|cat(?! *>)|head|tail|less|sed -n|tree)\b[ \t]+[\w./\"'*-]|\bgit grep\b|\b(?:read_file|view_file|open_file|search_\w+|list_dir\w*)\b"
    r"|\"command\": ?\"view\""
)
_EDITS = re.compile(
    r"\bsed -i\b|\bcat *>+ *[\w./]|\btee +[\w./-]|\bstr_replace\b|\bapply_patch\b|\*\*\* Begin Patch|\b(?:edit|write|create)_file\b|^<{5,} ?SEARCH"
    r"|\bgit apply\b|\bpatch -p\d|^diff --git ",
    re.MULTILINE,
)
_EDIT_HINTS = (
    "sed -i",
    "cat >",
    "cat>",
    "tee ",
    "str_replace",
    "apply_patch",
    "*** Begin Patch",
    "_file",
    "SEARCH\n",
    "git apply",
    "patch -p",
    "diff --git",
)
_HISTORY = (
    *("git log", "git show", "git reflog", "git stash", "git fsck", "git cat-file", "git rev-list", "git bisect"),
    *(".git/objects", ".git/packed-refs", ".git/logs"),
)
_HIDDEN = (
    *("hidden_test", "tests/hidden", "FAIL_TO_PASS", "PASS_TO_PASS", "test_patch", "golden_patch", "gold_patch"),
    *("answers.json", "expected_outputs/", "ground_truth."),
)
_NETWORK = (
    *("raw.githubusercontent.com", "curl http", "curl -", "wget http", "requests.get(", "urllib.request"),
    *("git clone", "git fetch", "git pull", "pip download"),
)
_SOURCES = (
    (HISTORY, ("git",), _HISTORY),
    (HIDDEN, ("_", "/", "."), _HIDDEN),
    (NETWORK, ("http", "curl", "urllib", "git", "pip"), _NETWORK),
)
"""(flag, what a text must have for any of the marks to be in it, marks)."""


class Text(NamedTuple):
    """What is read off one prompt and response, by the names of the module's table without their prefix."""

    chars: float
    thinking: float
    opening: float
    self_test: float
    search_first: float
    answer_source: float


def text_columns(
    prompts: Sequence[str | None],
    responses: Sequence[str | None],
    detailed: np.ndarray,
    steps: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Columns `text.NAME`, float64 of (rows,), of rows with these texts; NaN where there is no response. `detailed`, bool of (rows,),
    says of which rows the second half of the table is computed; `steps`, float64 of (rows,), salts the sketches."""
    n = len(responses)
    out = {name: np.full(n, np.nan) for name in (*EVERY_ROW, *IN_DETAIL)}
    there = [i for i, text in enumerate(responses) if text is not None]
    pairs = [(prompts[i] or "", responses[i] or "") for i in there]
    read = {pair: at_sight(*pair) for pair in dict.fromkeys(pairs)}
    table = np.array([read[pair] for pair in pairs], dtype=float).reshape(-1, len(EVERY_ROW))
    for name, column in zip(EVERY_ROW, table.T, strict=True):
        out[name][there] = column
    if chosen := [i for i in there if detailed[i]]:
        texts = [responses[i] or "" for i in chosen]
        salts = None if steps is None else np.nan_to_num(steps[chosen]).view(np.uint64)
        repetition, sketch = sketches(texts, salts)
        out["text.repetition"][chosen] = repetition
        for k in range(SKETCHES):
            out[f"text.sketch{k + 1}"][chosen] = sketch[:, k]
        sizes = {text: compressibility(text) for text in dict.fromkeys(texts)}
        out["text.compress"][chosen] = [sizes[text] for text in texts]
        pairs = [(prompts[i] or "", text) for i, text in zip(chosen, texts, strict=True)]
        held = {pair: about_program(*pair) for pair in dict.fromkeys(pairs)}
        programs = np.array([held[pair] for pair in pairs])
        for k, name in enumerate(("text.shape", "text.copies_parent", "text.copies_tests")):
            out[name][chosen] = programs[:, k]
    return out


def code_of(text: str) -> float:
    """The number that stands for a text: its CRC-32."""
    return float(zlib.crc32(text.encode("utf-8", "surrogatepass")))


def prompt_code(prompt: str) -> str:
    """How a prompt is named where the evidence has no task: `prompt-` and its CRC-32 and length in hexadecimal."""
    return f"prompt-{zlib.crc32(prompt.encode('utf-8', 'surrogatepass')):08x}{len(prompt):x}"


def at_sight(prompt: str, response: str) -> Text:
    """What every row gets."""
    answer, thinking = response, 0.0
    if (end := response.rfind("</think>")) >= 0:
        begin = response.find("<think>", 0, end)
        answer = response[end + 8 :]
        thinking = (end + 8 - max(begin, 0)) / len(response)
    elif (begin := response.find("<think>")) >= 0:
        answer, thinking = "", 1 - begin / len(response)
    opening = _DIGITS.sub("0", " ".join(answer[: 2 * OPENING].split()).lower())[:OPENING]
    looked_at = response if len(response) <= MOST_TEXT else response[:MOST_TEXT]
    return Text(
        chars=float(len(response)),
        thinking=thinking,
        opening=code_of(opening) if opening else math.nan,
        self_test=float(_any_in(looked_at, _TESTS)),
        search_first=_search_first(looked_at),
        answer_source=float(_answer_source(prompt, looked_at)),
    )


def _any_in(text: str, marks: tuple[str, ...]) -> bool:
    for mark in marks:  # noqa: SIM110 - any() over a generator takes three times as long, for every row
        if mark in text:
            return True
    return False


def _search_first(text: str) -> float:
    if not _any_in(text, _EDIT_HINTS) or (edit := _EDITS.search(text)) is None:
        return math.nan
    return float(_SEARCHES.search(text, 0, edit.start()) is not None)


def _answer_source(prompt: str, text: str) -> int:
    found = 0
    for flag, hints, marks in _SOURCES:
        if not _any_in(text, hints) or not _any_in(text, marks):
            continue
        if any(mark not in prompt and _says(text, mark) for mark in marks):
            found |= flag
    return found


def _says(text: str, mark: str) -> bool:
    """Whether a mark is in a text, and not as the end of a longer word."""
    at = text.find(mark)
    while at > 0 and text[at - 1].isalnum() and mark[0].isalnum():
        at = text.find(mark, at + 1)
    return at >= 0


def compressibility(text: str) -> float:
    """Compressed over plain size of the end of a text; NaN for a short one."""
    raw = text[-4_000:].encode("utf-8", "surrogatepass")[-4_000:]
    return len(zlib.compress(raw, 1)) / len(raw) if len(raw) >= 200 else math.nan


def about_program(prompt: str, response: str) -> tuple[float, float, float]:
    """(shape, whether it is a program of the prompt, share of the prompt's expected outputs it holds); NaN where there is none."""
    program, edits = program_of(response)
    if program is None:
        return math.nan, math.nan, math.nan
    shape = code_of(normal_form(program))
    shown = _shown(prompt[-MOST_TEXT:])
    if edits is not None:
        copies = float(all(normal_form(before) == normal_form(after) for before, after in edits))
    else:
        copies = float(shape in shown.shapes) if shown.shapes else math.nan
    return shape, copies, _held(shown.answers, program)


def program_of(response: str) -> tuple[str | None, list[tuple[str, str]] | None]:
    """The program in a response, and its edits (search, replace) where it answers with edits; None where there is neither."""
    end = response.rfind("</think>")
    answer = response[end + 8 :] if end >= 0 else response
    answer = answer[-MOST_TEXT:]
    if "SEARCH\n" in answer and (edits := _edits(answer)):
        return "\n".join(after for _, after in edits)[:MOST_CODE], edits
    if "```" in answer or "~~~" in answer:
        fences = [(tag.lower(), body) for _, tag, body in _FENCE.findall(answer)]
        python = [body for tag, body in fences if tag in ("", "python", "py", "python3")]
        found = python or [body for _, body in fences]
        return (found[-1][:MOST_CODE] if found else None), None
    return (answer[:MOST_CODE] if _BARE.match(answer) else None), None


def _edits(answer: str) -> list[tuple[str, str]]:
    """(search, replace) of all complete SEARCH/REPLACE blocks."""
    found: list[tuple[str, str]] = []
    parts: tuple[list[str], list[str]] | None = None
    into: list[str] | None = None
    for line in answer.split("\n"):
        if line.startswith("<<<<<") and line.rstrip().endswith("SEARCH"):
            parts = [], []
            into = parts[0]
        elif parts is not None and line.startswith("=====") and not line.strip("= "):
            into = parts[1]
        elif parts is not None and line.startswith(">>>>>"):
            found.append(("\n".join(parts[0]), "\n".join(parts[1])))
            parts = into = None
        elif into is not None:
            into.append(line)
    return found


class _Shown(NamedTuple):
    """What a prompt gives away."""

    shapes: frozenset[float]
    """Of the programs it shows."""
    answers: tuple[str, ...]
    """Expected outputs, without spaces, that would not be in a program by accident."""


_EXPECTED = re.compile(
    r"^[ \t]*assert\s.+?==\s*(?P<a>.+?)\s*(?:,\s*['\"].*)?$"
    r"|^[ \t]*>>> .+\n(?P<b>[^\n>]+)$"
    r"|\b[Ee]xpected(?: output| result| answer| value)?(?: is|:)?[ \t]+(?P<c>[^\n]+?)(?=,? (?:but )?got\b|[.;]?$)"
    r"|\b(?:[Oo]utput|[Rr]esult|[Aa]nswer)s?:[ \t]*\n?(?P<d>[^\n]+)$"
    r"|(?:->|=>|→)[ \t]*(?P<e>[^\n:]+)$",
    re.MULTILINE,
)
_TELLS_NOTHING = {
    "True",
    "False",
    "None",
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "()",
    "''",
    '""',
    "100",
    "1000",
    "int",
    "str",
    "list",
    "bool",
    "float",
}


@lru_cache(maxsize=64)
def _shown(prompt: str) -> _Shown:
    shapes = frozenset(
        code_of(normal_form(body[:MOST_CODE]))
        for _, tag, body in _FENCE.findall(prompt)
        if tag.lower() in ("", "python", "py", "python3") and _looks_like_code(body)
    )
    answers: dict[str, int] = {}
    for match in _EXPECTED.finditer("\n".join(line[:MOST_LINE] for line in prompt.split("\n"))):
        literal = _dense((match.group(match.lastgroup or 0) or "").strip().strip("`"))
        if (
            3 <= len(literal) <= 200
            and literal not in _TELLS_NOTHING
            and (literal[0] in "-+.[({'\"" or literal[0].isdigit())
        ):
            answers[literal] = answers.get(literal, 0) + 1
    dense = _dense(prompt)
    telling = tuple(a for a, times in answers.items() if dense.count(a) <= times)
    return _Shown(shapes, telling if len(telling) >= 2 else ())


def _looks_like_code(body: str) -> bool:
    return any(mark in body for mark in ("def ", "class ", "import ", "print(", "return ", " = "))


_DOCSTRING = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''", re.DOTALL)
_LOOSE = re.compile(r"(?<!\w)[ \t]+|[ \t]+(?!\w)")
_ASIDE = re.compile(r"^\s*(?:assert\b|print\(|#|>>>)")


def _dense(text: str) -> str:
    """Without the spaces that part no two words."""
    return _LOOSE.sub("", text)


def _held(answers: tuple[str, ...], program: str) -> float:
    if not answers:
        return math.nan
    lines = _DOCSTRING.sub("", program).split("\n")
    dense = _dense("\n".join(line.split("#")[0] for line in lines if not _ASIDE.match(line)))
    held = sum(1 for answer in answers if _holds(dense, answer))
    return held / len(answers)


def _holds(dense: str, literal: str) -> bool:
    """Whether a program without spaces has this literal as a whole one (not as digits of a longer number)."""
    at = dense.find(literal)
    while at >= 0:
        before, after = dense[at - 1 : at], dense[at + len(literal) : at + len(literal) + 1]
        if not (literal[0].isalnum() and (before.isalnum() or (before in "._" and before))) and not (
            literal[-1].isalnum() and (after.isalnum() or (after in "._" and after))
        ):
            return True
        at = dense.find(literal, at + 1)
    return False
