"""Runs inside the sandbox, as the main file of a job: a data set's own check around its own solution, with every call noted.

The host reads this file as text and never imports it. It defines `record`, the entry of the job.
"""

import copy

_LEAVES = (type(None), bool, int, float, complex, str, bytes)
_CONTAINERS = (list, tuple, set, frozenset)


def record(source, test, entry, max_calls):
    """Run `source`, then `test`, then its `check(candidate)`, and tell what happened.

    Returns {"stage": "done", "calls": [...]}, or the stage that failed ("solution", "test", "check") with an "error".
    Each call is {"args": [...], "kwargs": {...}, "result": ...}, arguments as they were before the call; or {"fault": text}
    when it raised, or when something in it is not plain data.
    """
    calls = []
    namespace: dict = {"__name__": "solution"}
    stage = "solution"
    try:
        exec(compile(source, "solution.py", "exec"), namespace)
        solution = namespace.get(entry)
        if not callable(solution):
            raise NameError(f"the solution does not define {entry}")
        stage = "test"
        testing = dict(namespace)
        exec(compile(test, "test.py", "exec"), testing)
        stage = "check"
        testing["check"](_recording(solution, calls, max_calls))
    except BaseException as e:
        return {"stage": stage, "error": f"{type(e).__name__}: {e}"[:300], "calls": calls[:max_calls]}
    return {"stage": "done", "error": "", "calls": calls[:max_calls]}


def _recording(solution, calls, max_calls):
    def candidate(*args, **kwargs):
        call = {}
        if len(calls) < max_calls:
            call = _noted(args, kwargs)
        calls.append(call)
        try:
            result = solution(*args, **kwargs)
        except BaseException as e:
            call["fault"] = f"the solution raised {type(e).__name__}"
            raise
        odd = _not_plain(result)
        if odd:
            call["fault"] = f"the result holds a {odd}"
        elif call:
            call["result"] = copy.deepcopy(result)
        return result

    return candidate


def _noted(args, kwargs):
    odd = _not_plain(list(args)) or _not_plain(kwargs)
    if odd:
        return {"fault": f"an argument holds a {odd}"}
    return {"args": copy.deepcopy(list(args)), "kwargs": copy.deepcopy(kwargs)}


def _not_plain(value, depth=0):
    """The type of the first thing in `value` that is not plain data, or an empty text."""
    kind = type(value)
    if kind in _LEAVES:
        return ""
    if depth > 100:
        return "very deep nesting"
    if kind in _CONTAINERS:
        items = list(value)
    elif kind is dict:
        items = [*value.keys(), *value.values()]
    else:
        return kind.__name__
    for item in items:
        odd = _not_plain(item, depth + 1)
        if odd:
            return odd
    return ""
