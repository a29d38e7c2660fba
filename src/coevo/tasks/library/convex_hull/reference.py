def half(points):
    """The lower hull of sorted points (Andrew's monotone chain, 1979), without its last point."""
    chain = []
    for x, y in points:
        while len(chain) > 1:
            (ax, ay), (bx, by) = chain[-2], chain[-1]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                break
            chain.pop()
        chain.append((x, y))
    return chain[:-1]


def hull_corners(points):
    ordered = sorted({(x, y) for x, y in points})
    if len(ordered) <= 1:
        return [list(point) for point in ordered]
    return [list(point) for point in half(ordered) + half(ordered[::-1])]
