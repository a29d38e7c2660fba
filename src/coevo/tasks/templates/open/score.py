"""The smallest distance between two points. Runs outside the sandbox; sees only the data that a candidate returned."""

from itertools import combinations
from math import dist

from coevo.tasks.exact import Infeasible, listed, number


def score(output, instance):
    points = listed(output, "the answer")
    if len(points) != instance["n"]:
        raise Infeasible(f"expected {instance['n']} points, got {len(points)}")
    places = []
    for i, point in enumerate(points):
        place = [number(value, f"point {i}") for value in listed(point, f"point {i}")]
        if len(place) != 2 or not all(0 <= value <= 1 for value in place):
            raise Infeasible(f"point {i} is {place}; two numbers between 0 and 1 were expected")
        places.append(place)
    return min(dist(a, b) for a, b in combinations(places, 2))
