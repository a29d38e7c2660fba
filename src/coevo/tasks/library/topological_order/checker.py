"""Any order that respects all conditions is right; an empty list is right exactly when the reference found none."""


def check(output, expected, arguments):
    count, earlier, later = arguments
    if not isinstance(output, (list, tuple)):
        return wrong(f"expected a list of jobs, got a {type(output).__name__}")
    if not expected:
        return wrong("no order exists; an empty list was expected") if output else {"ok": True}
    if any(type(job) is not int for job in output):
        return wrong("the list must hold integers only")
    if sorted(output) != list(range(count)):
        return wrong(f"the list must hold each of the {count} jobs exactly once")
    place = {job: position for position, job in enumerate(output)}
    for a, b in zip(earlier, later, strict=True):
        if place[a] >= place[b]:
            return wrong(f"job {a} must come before job {b}")
    return {"ok": True}


def wrong(reason):
    return {"ok": False, "feedback": reason}
