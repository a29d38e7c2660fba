"""A difference basis from two arithmetic progressions, thinned by leaving out what is not needed."""

# EVOLVE-BLOCK-START
SHORT = 30  # step of the coarse progression, and length of the fine one
COARSE = 45  # number of coarse marks
EXTRA = 3  # fine marks at the far end
TRIES = 40  # marks that are tried for removal
STRIDE = 7  # which ones: every STRIDE-th, again and again


def marks():
    """Fine marks 0..SHORT, then coarse ones SHORT apart, then a few more at the end."""
    fine = list(range(SHORT))
    coarse = [SHORT * i for i in range(1, COARSE)]
    top = SHORT * COARSE
    return sorted(set(fine + coarse + [top - i * i for i in range(EXTRA)]))


def thin(found, least):
    """Leave out marks as long as |B|^2 / v does not get worse."""
    best = len(found) ** 2 / max(reach(found), 1)
    for t in range(TRIES):
        i = t * STRIDE % len(found)
        trial = found[:i] + found[i + 1 :]
        v = reach(trial)
        if v >= least and len(trial) ** 2 / v <= best:
            found, best = trial, len(trial) ** 2 / v
    return found


# EVOLVE-BLOCK-END


def reach(found):
    """The largest v such that each of 1..v is a difference."""
    seen = {b - a for a in found for b in found if b > a}
    v = 0
    while v + 1 in seen:
        v += 1
    return v


def basis(least):
    return thin(marks(), least)
