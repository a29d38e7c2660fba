from itertools import accumulate


def range_sums(values, queries):
    before = list(accumulate(values, initial=0))
    return [before[right] - before[left] for left, right in queries]
