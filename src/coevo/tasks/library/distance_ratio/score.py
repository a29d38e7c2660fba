"""(largest / smallest distance)^2, exactly; scale free, so nothing needs to be shrunk."""

from coevo.tasks.exact import distance_ratio, matrix, round_up


def score(output, instance):
    ratio = distance_ratio(matrix(output, instance["n"], instance["dimension"], "points"))
    value = round_up(ratio.value)
    closest, farthest = ("{} and {}".format(*pair) for pair in (ratio.closest, ratio.farthest))
    return {
        "score": value,
        "feedback": f"squared ratio {value:.12g}; closest pair: points {closest}; farthest pair: points {farthest}",
    }
