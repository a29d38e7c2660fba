from heapq import heappop, heappush


def distances(count, starts, ends, lengths, source):
    roads = [[] for _ in range(count)]
    for start, end, length in zip(starts, ends, lengths, strict=True):
        roads[start].append((end, length))
    best = [-1] * count
    heap = [(0, source)]
    while heap:
        length, place = heappop(heap)
        if best[place] >= 0:
            continue
        best[place] = length
        for end, more in roads[place]:
            if best[end] < 0:
                heappush(heap, (length + more, end))
    return best
