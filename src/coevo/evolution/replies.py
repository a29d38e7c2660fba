"""Reading a model's reply: what it says outside its thinking, and the code fences in that.

Everything is a linear scan over lines, total for any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from coevo.evolution.syntax import string_end

MAX_REPLY = 2_000_000
"""Characters of a reply that are read at all."""

_TAG = re.compile(r"<(/?)(think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad)>", re.IGNORECASE)
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_FILE_LINE = re.compile(
    r"^[ \t#>*_`-]*file(?:name)?[ \t]*[:=][ \t*_`\"']*([\w./+-]*\w\.\w+)[ \t*_`\"':]*$", re.IGNORECASE
)
_INK = re.compile(r"\S")
_INFO_NAME = re.compile(r"(?:^|[\s:=\"'({])([\w./-]+\.py)\b")
_REFUSAL = re.compile(
    r"\b(?:i(?:['’]m| am) (?:sorry|unable|not able)|i (?:can(?:no|['’])t|cannot|won['’]t|will not|must decline)|as an ai\b"
    r"|i apologi[sz]e|unable to (?:help|assist|comply))",
    re.IGNORECASE,
)

_PYTHON = re.compile(r"(?:i?python|py)?[\d.]*|code|program|[\w./-]+\.py")
_PROSE = frozenset({"markdown", "md", "mdx"})


@dataclass(frozen=True)
class Visible:
    """A reply without its thinking sections. `unclosed` when the last one never ends."""

    text: str
    unclosed: bool = False


@dataclass(frozen=True)
class Fence:
    """One fenced block: language tag in lower case, the file it is for (if it says), and its lines."""

    tag: str
    file: str | None
    code: str


@dataclass
class Fences:
    """The complete fences of a text in order; `unclosed` is the text after an opening fence that never closes."""

    complete: list[Fence] = field(default_factory=list)
    unclosed: str | None = None

    def answers(self) -> list[Fence]:
        """The fences that may hold the answer: Python's and untagged ones; only if there are none, all others."""
        python = [fence for fence in self.complete if _PYTHON.fullmatch(fence.tag)]
        return python or self.complete


def normal_lines(text: str) -> str:
    """The text with line feeds as its only line ends, and without a byte-order mark."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def looks_like_refusal(text: str) -> bool:
    """Whether prose without code opens like a refusal."""
    return _REFUSAL.search(text[:400]) is not None


def file_line(line: str) -> str | None:
    """The name in a line such as `### file: helper.py`, else None."""
    match = _FILE_LINE.match(line) if len(line) <= 300 else None
    return match.group(1) if match else None


def visible(reply: str) -> Visible:
    """Drop `<think>`, `<reasoning>`, ... sections.

    A tag opens a section only at the start of a line and outside code fences, so that code which mentions a tag stays
    code. A closing tag without an opening one ends a section that began before the reply (chat templates
    often open it in the prompt): everything before it goes.
    """
    if "<" not in reply:
        return Visible(reply)
    kept: list[str] = []
    scan = _ThinkScan()
    for line in reply.split("\n"):
        rest = scan.read(line)
        if scan.forget:
            kept.clear()
            scan.forget = False
        if rest is not None:
            kept.append(rest)
    return Visible("\n".join(kept), scan.depth > 0)


class _ThinkScan:
    """Line-by-line state of `visible`: how deep in thinking, in which fence, and whether to drop what was kept."""

    def __init__(self) -> None:
        self.depth = 0
        self.name = ""
        self.fence: str | None = None
        self.mentioned = 0
        self.forget = False

    def read(self, line: str) -> str | None:
        """The part of the line that is not thinking, or None."""
        start, first, last = 0, _first_ink(line, 0), len(line.rstrip())
        mentioned = self.mentioned if self.fence else 0
        for tag in _TAG.finditer(line):
            opening = not tag.group(1)
            if self.depth:
                if tag.group(2).lower() == self.name:
                    self.depth += 1 if opening else -1
                if self.depth == 0:
                    start, first = tag.end(), _first_ink(line, tag.end())
            elif opening and self.fence is None and first == tag.start():
                self.depth, self.name = 1, tag.group(2).lower()
            elif not opening and not mentioned and (tag.start() == first or tag.end() == last):
                self.forget, self.fence = True, None
                start, first = tag.end(), _first_ink(line, tag.end())
            else:
                mentioned = max(0, mentioned + (1 if opening else -1))
        if self.depth:
            return None
        rest = line[start:]
        self._track(rest)
        self.mentioned = mentioned if self.fence else 0
        return rest

    def _track(self, line: str) -> None:
        match = _FENCE.match(line)
        if not match:
            return
        marks, info = match.group(2), match.group(3).strip()
        if self.fence is None:
            if marks[0] == "~" or "`" not in info:
                self.fence = marks
        elif not info and marks[0] == self.fence[0] and len(marks) >= len(self.fence):
            self.fence = None


def _first_ink(line: str, start: int) -> int:
    match = _INK.search(line, start)
    return match.start() if match else -1


def fences(text: str) -> Fences:
    """All complete fences of a text, read as Markdown with three liberties.

    Inside Python code a fence line that lies in a triple-quoted string does not close. A fence tagged `markdown`,
    or one whose first line opens another fence, is transparent: what is inside it counts. Fences may be
    indented by any amount.
    """
    marks = [m for m in _FENCE.finditer(text) if not (m.group(2)[0] == "`" and "`" in m.group(3))]
    found = Fences()
    index = failed = 0
    transparent: list[str] = []
    while index < len(marks):
        opener = marks[index]
        tag, name = _info(opener.group(3))
        if transparent and _closes(opener, transparent[-1]):
            transparent.pop()
            index += 1
            continue
        if tag in _PROSE or _opens_another(text, marks, index):
            transparent.append(opener.group(2))
            index += 1
            continue
        closer = None
        if _PYTHON.fullmatch(tag) and failed < 8:
            closer = _closer(text, marks, index, aware=True)
            failed += closer is None
        if closer is None:
            closer = _closer(text, marks, index, aware=False)
        if closer is None:
            rest = text[opener.end() + 1 :]
            found.unclosed = rest if rest.strip() or not found.complete else None
            break
        code = text[opener.end() + 1 : marks[closer].start()]
        found.complete.append(Fence(tag, name or _named_before(text, opener.start()), _outdent(code, opener.group(1))))
        index = closer + 1
    return found


def _info(info: str) -> tuple[str, str | None]:
    """Language tag and file name in the words after an opening fence."""
    info = info.strip()[:200]
    name = _INFO_NAME.search(info)
    words = re.split(r"[\s:,={}]+", info.strip("{}. \t"), maxsplit=1)
    tag = words[0].lower().lstrip(".")
    return tag, name.group(1) if name else None


def _opens_another(text: str, marks: list[re.Match[str]], index: int) -> bool:
    """Whether the next line is an opening fence with a tag, which code never starts with."""
    if index + 1 >= len(marks):
        return False
    opener, following = marks[index], marks[index + 1]
    return bool(following.group(3).strip()) and not text[opener.end() : following.start()].strip()


def _closes(mark: re.Match[str], marker: str) -> bool:
    other = mark.group(2)
    return not mark.group(3).strip() and other[0] == marker[0] and len(other) >= len(marker)


def _closer(text: str, marks: list[re.Match[str]], index: int, *, aware: bool) -> int | None:
    """Index of the mark that closes the fence at `index`: the first that can; `aware` skips those in strings."""
    at = marks[index].end()
    for i in range(index + 1, len(marks)):
        mark = marks[i]
        if aware:
            at = string_end(text, at, mark.start())
        if at <= mark.start() and _closes(mark, marks[index].group(2)):
            return i
        at = max(at, mark.end()) if at <= mark.start() else at
    return None


def _named_before(text: str, start: int) -> str | None:
    """The file named in the last non-blank line before a fence."""
    line = text[max(0, start - 400) : start].rstrip().rpartition("\n")[2]
    return file_line(line)


def _outdent(code: str, indent: str) -> str:
    """Undo the indentation that an indented fence (in a list, say) gives all its lines."""
    if not indent:
        return code
    lines = code.split("\n")
    if all(line.startswith(indent) or not line.strip() for line in lines):
        return "\n".join(line[len(indent) :] if line.strip() else "" for line in lines)
    return code
