from graph import Graph


def distances(count, starts, ends, lengths, source):
    graph = Graph(count, starts, ends, lengths)
    best = {source: 0}
    changed = True
    while changed:
        changed = False
        for place in range(count):
            if place in best:
                for target, length in graph.roads_from(place):
                    if target not in best or best[place] + length < best[target]:
                        best[target] = best[place] + length
                        changed = True
    return [best.get(place, -1) for place in range(count)]
