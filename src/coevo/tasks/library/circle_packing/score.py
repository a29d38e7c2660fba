"""Sum of the radii after the least common shrink that makes the packing exactly valid."""

from coevo.tasks.exact import matrix, round_down, round_up, shrink_circles


def score(output, instance):
    """The certified sum; `claimed` and `shrink` say what the packing was before."""
    packing = shrink_circles(matrix(output, instance["n"], 3, "circles"))
    certified, shrink = round_down(packing.total), round_up(packing.shrink)
    feedback = f"certified sum of radii {certified:.12g}"
    if shrink > 1e-15:
        feedback += f"; {packing.tight}, so every radius was reduced by {shrink:.3g}"
    return {"score": certified, "feedback": feedback, "claimed": float(packing.claimed), "shrink": shrink}
