from bisect import bisect_right, insort


def count_inversions(values):
    seen = []
    count = 0
    for value in values:
        count += len(seen) - bisect_right(seen, value)
        insort(seen, value)
    return count
