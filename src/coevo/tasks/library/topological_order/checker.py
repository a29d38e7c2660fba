"""Any order that respects all pairs is right; an empty list is right exactly when the reference found none."""


def check(output, expected, arguments):
    count, before = arguments
    if not isinstance(output, (list, tuple)):
        return {"ok": False, "feedback": f"expected a list of jobs, got a {type(output).__name__}"}
    if not expected:
        return {
            "ok": len(output) == 0,
            "feedback": "" if len(output) == 0 else "no order exists; an empty list was expected",
        }
    if any(type(job) is not int for job in output):
        return {"ok": False, "feedback": "the list must hold integers only"}
    if sorted(output) != list(range(count)):
        return {"ok": False, "feedback": f"the list must hold each of the {count} jobs exactly once"}
    place = {job: position for position, job in enumerate(output)}
    for a, b in before:
        if place[a] >= place[b]:
            return {"ok": False, "feedback": f"job {a} must come before job {b}"}
    return {"ok": True, "feedback": ""}
