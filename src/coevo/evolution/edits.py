"""From a model's reply to a child program, or to the typed reason why there is none.

Two styles. A *rewrite* gives the new text in a code fence: the last complete one outside thinking
sections, holding the whole file or only the content of its EVOLVE-BLOCK. A *diff* gives SEARCH/REPLACE
blocks (see `coevo.evolution.hunks`), all of which apply or none. For a program of several files, a line
`### file: name.py` before a fence or block says which one is meant; without it, the main file.

What is accepted always compiles, differs from its parent, and leaves the text outside the EVOLVE-BLOCK
byte for byte as it was (but for `Edit.WRITE`, which knows no parent). Any text is a valid argument: these functions never raise for a reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from coevo.evolution import blocks
from coevo.evolution.hunks import Change, Hunk, Refused, Target, locate, read_hunks
from coevo.evolution.replies import MAX_REPLY, Fence, Fences, fences, looks_like_refusal, normal_lines, visible
from coevo.evolution.rewrites import fitted
from coevo.evolution.syntax import bad_text, fault, parse, top_level_names, used_names
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.programs import MAX_PROGRAM_BYTES, Program


def apply_rewrite(parent: Program, reply: str, edit: Edit = Edit.REWRITE) -> Proposal:
    """The child that a reply with fenced code describes. `edit` names the proposal (a crossover reads the same).

    For `Edit.WRITE` the parent is the start program, which the model did not see: the code takes the place of its whole main file,
    markers or not, and may well come out as the parent again.
    """
    try:
        if edit is Edit.WRITE:
            parent = replace(parent, files=tuple((name, blocks.without_markers(text)) for name, text in parent.files))
        text = _readable(reply)
        found = fences(text)
        chosen = _by_file(parent, found) if found.complete and found.unclosed is None else {}
        if not chosen:
            chosen = {parent.main: _bare_code(parent, text, found)}
        spans = _editable(parent)
        sources = dict(parent.files)
        for name, code in chosen.items():
            sources[name] = fitted(sources[name], code, name, frozen=not spans[name])
        return _child(parent, sources, edit)
    except Refused as e:
        return Proposal(edit, None, e.reason, e.detail)


def apply_diff(parent: Program, reply: str) -> Proposal:
    """The child that a reply with SEARCH/REPLACE blocks describes. All blocks are matched against the parent."""
    try:
        text = _readable(reply)
        hunks = read_hunks(text)
        if not hunks:
            raise _without_hunks(text)
        spans = _editable(parent)
        targets = {name: Target(name, source, spans[name]) for name, source in parent.files}
        changes: dict[str, list[Change]] = {}
        for hunk in hunks:
            name = _known_file(parent, hunk.file)
            changes.setdefault(name, []).append(_located(hunk, name, targets))
        sources = dict(parent.files)
        for name, found in changes.items():
            sources[name] = _applied(targets[name], found)
        return _child(parent, sources, Edit.DIFF)
    except Refused as e:
        return Proposal(Edit.DIFF, None, e.reason, e.detail)


def apply_reply(parent: Program, reply: str, edit: Edit) -> Proposal:
    """The child that a model's reply describes, by the style it was asked for: rewrite, crossover, write or diff."""
    if edit is not Edit.DIFF:
        return apply_rewrite(parent, reply, edit)
    found = apply_diff(parent, reply)
    if found.rejection is Rejection.NO_CODE:
        # Weak models answer with the whole program where edits were asked for.
        whole = apply_rewrite(parent, reply, Edit.DIFF)
        return whole if whole.program is not None else found
    return found


def finished(parent: Program, sources: Mapping[str, str], edit: Edit) -> Proposal:
    """The child with these files after every check an edit must pass; what operators end with."""
    try:
        return _child(parent, sources, edit)
    except Refused as e:
        return Proposal(edit, None, e.reason, e.detail)


def _readable(reply: str) -> str:
    """The reply outside its thinking, with plain line ends. Raises `Refused` for what cannot be read at all."""
    if len(reply) > MAX_REPLY:
        raise Refused(Rejection.TOO_LARGE, f"The reply has {len(reply):,} characters; the limit is {MAX_REPLY:,}.")
    if bad := bad_text(reply):
        raise Refused(Rejection.BAD_TEXT, f"The reply holds {bad}. Send plain UTF-8 text.")
    if not reply.strip():
        raise Refused(Rejection.EMPTY, "The reply is empty.")
    seen = visible(normal_lines(reply))
    if not seen.text.strip():
        if seen.unclosed:
            raise Refused(Rejection.TRUNCATED, "The reply ends inside its thinking section. Think less, then answer.")
        raise Refused(Rejection.EMPTY, "The reply has nothing outside its thinking section. Answer after it.")
    return seen.text


def _editable(parent: Program) -> dict[str, tuple[tuple[int, int], ...]]:
    try:
        return blocks.editable(parent)
    except blocks.MarkerError as e:
        raise Refused(Rejection.MALFORMED, f"The current program's markers do not pair up: {e}.") from None


def _known_file(parent: Program, name: str | None) -> str:
    known = dict(parent.files)
    name = parent.main if name is None else name.removeprefix("./")
    if name not in known:
        raise Refused(
            Rejection.UNKNOWN_FILE, f"The program has no file {name!r}. It has {', '.join(sorted(known))[:400]}."
        )
    return name


# Rewrites: which fence is the answer


def _by_file(parent: Program, found: Fences) -> dict[str, str]:
    """The code for each file that the reply gives. Named fences win over unnamed ones, later over earlier."""
    answers = found.answers()
    if not any(fence.code.strip() for fence in answers):
        raise Refused(Rejection.EMPTY, "The code fence is empty. Put the whole program into it.")
    known = dict(parent.files)
    named = [replace(fence, file=fence.file.removeprefix("./")) for fence in answers if fence.file]
    for_known = [fence for fence in named if fence.file in known]
    unnamed = [fence for fence in answers if not fence.file]
    if for_known and len(known) > 1:
        for fence in named:
            _known_file(parent, fence.file)
        return {str(fence.file): fence.code for fence in for_known}
    pool = for_known or unnamed
    if not pool:
        _known_file(parent, named[-1].file)
    return {parent.main: _last_answer(parent, pool).code}


def _last_answer(parent: Program, answers: list[Fence]) -> Fence:
    """The last fence that is not empty, unless it merely shows how to call what the one before it defines."""
    filled = [fence for fence in answers if fence.code.strip()]
    last = filled[-1]
    if len(filled) == 1:
        return last
    wanted = top_level_names(parse(parent.source))
    tree = parse(last.code)
    if tree is None or not wanted or wanted & top_level_names(tree):
        return last
    for fence in reversed(filled[-4:-1]):
        if top_level_names(parse(fence.code)) & wanted & used_names(tree):
            return fence
    return last


def _bare_code(parent: Program, text: str, found: Fences) -> str:
    """A reply without any fence that is plainly the program: it compiles and defines what the parent defines."""
    if found.unclosed is not None:
        raise Refused(Rejection.TRUNCATED, "The last code fence never closes, so the program may be cut off. Close it.")
    tree = parse(text)
    if tree is not None and top_level_names(tree) & top_level_names(parse(parent.source)):
        return text
    raise _without_code(text, "The reply has no complete code fence. Put the whole program between ``` lines.")


def _without_code(text: str, otherwise: str) -> Refused:
    if looks_like_refusal(text):
        return Refused(Rejection.REFUSAL, "The reply declines the task. Answer with code.")
    return Refused(Rejection.NO_CODE, otherwise)


# Diffs


def _without_hunks(text: str) -> Refused:
    ask = "Give SEARCH/REPLACE blocks: `<<<<<<< SEARCH`, lines of the program, `=======`, new lines, `>>>>>>> REPLACE`."
    if fences(text).complete:
        return Refused(Rejection.NO_CODE, f"The reply has a code fence but no edit block. {ask}")
    return _without_code(text, f"The reply has no edit block. {ask}")


def _located(hunk: Hunk, name: str, targets: dict[str, Target]) -> Change:
    try:
        return locate(hunk, targets[name])
    except Refused as e:
        if e.reason is Rejection.NO_MATCH and hunk.file is None:
            for other, target in targets.items():
                if other != name and target.find(hunk.search, "trimmed"):
                    detail = f"{e.detail} It is in {other}: put the line `### file: {other}` before the block."
                    raise Refused(e.reason, detail) from None
        raise


def _applied(target: Target, changes: list[Change]) -> str:
    """The file with all changes made. Raises `Refused`: OVERLAP."""
    ordered = sorted((c for c in changes if c.lines or c.start < c.stop), key=lambda c: (c.start, c.stop))
    for a, b in pairwise(ordered):
        if b.start < a.stop or (a.start == a.stop == b.start == b.stop):
            raise Refused(
                Rejection.OVERLAP,
                f"Edit blocks {min(a.number, b.number)} and {max(a.number, b.number)} change the same place of "
                f"{target.name} (line {b.start + 1}). Join them into one.",
            )
    raw = list(target.raw)
    for change in reversed(ordered):
        new = [line + target.newline for line in change.lines]
        if new and change.start and not raw[change.start - 1].endswith("\n"):
            raw[change.start - 1] += target.newline
        raw[change.start : change.stop] = new
    return "".join(raw)


# Both


def _child(parent: Program, sources: Mapping[str, str], edit: Edit) -> Proposal:
    """The checks that every child passes, cheapest first. Raises `Refused`."""
    size = sum(len(text) for text in sources.values())
    if size > MAX_PROGRAM_BYTES:
        raise Refused(
            Rejection.TOO_LARGE, f"The program would have {size:,} characters; at most {MAX_PROGRAM_BYTES:,}."
        )
    old = dict(parent.files)
    changed = [name for name, text in sources.items() if text != old[name]]
    for name in changed:
        if len(_blocks(sources[name], name)) != len(blocks.find_blocks(old[name])):
            raise Refused(Rejection.MALFORMED, f"The new text of {name} holds EVOLVE-BLOCK markers. Leave them out.")
        if name.endswith(".py") and (problem := fault(sources[name], name)):
            raise Refused(Rejection.SYNTAX, f"The result is not valid Python: {problem}.")
    child = Program.of(sources, parent.main)
    if edit is not Edit.WRITE and (not changed or child.id == parent.id):
        raise Refused(Rejection.UNCHANGED, "The result is the current program again. Change what it does.")
    return Proposal(edit, child)


def _blocks(source: str, name: str) -> tuple[blocks.Block, ...]:
    try:
        return blocks.find_blocks(source)
    except blocks.MarkerError as e:
        raise Refused(Rejection.MALFORMED, f"In the new {name}, {e}. Keep both markers or leave both out.") from None
