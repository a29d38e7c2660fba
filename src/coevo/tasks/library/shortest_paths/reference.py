from heapq import heappop, heappush


def distances(count, roads, source):
    targets = [[] for _ in range(count)]
    for start, end, length in roads:
        targets[start].append((end, length))
    best = [-1] * count
    heap = [(0, source)]
    while heap:
        length, place = heappop(heap)
        if best[place] >= 0:
            continue
        best[place] = length
        for end, more in targets[place]:
            if best[end] < 0:
                heappush(heap, (length + more, end))
    return best
