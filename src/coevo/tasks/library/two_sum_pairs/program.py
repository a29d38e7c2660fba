from bisect import bisect_left, bisect_right


def count_pairs(values, target):
    ordered = sorted(values)
    count = 0
    for i in range(len(ordered)):
        rest = ordered[i + 1 :]
        wanted = target - ordered[i]
        count += bisect_right(rest, wanted) - bisect_left(rest, wanted)
    return count
