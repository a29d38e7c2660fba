class Graph:
    """Places and the one-way roads between them."""

    def __init__(self, count, starts, ends, lengths):
        self.roads = [[] for _ in range(count)]
        for start, end, length in zip(starts, ends, lengths, strict=True):
            self.roads[start].append((end, length))

    def roads_from(self, place):
        """The best road to each place that can be reached directly, shortest first."""
        nearest = {}
        for end, length in self.roads[place]:
            if end not in nearest or length < nearest[end]:
                nearest[end] = length
        return sorted(nearest.items(), key=lambda item: item[1])
