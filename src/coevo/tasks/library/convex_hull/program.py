def hull_corners(points):
    points = [tuple(point) for point in points]
    if not points:
        return []
    start = min(points)
    corners = []
    here = start
    while True:
        corners.append(list(here))
        ahead = here
        for point in points:
            if ahead == here:
                ahead = point
                continue
            turn = (ahead[0] - here[0]) * (point[1] - here[1]) - (ahead[1] - here[1]) * (point[0] - here[0])
            farther = abs(point[0] - here[0]) + abs(point[1] - here[1]) > abs(ahead[0] - here[0]) + abs(
                ahead[1] - here[1]
            )
            if turn < 0 or (turn == 0 and farther):
                ahead = point
        here = ahead
        if here == start:
            return corners
