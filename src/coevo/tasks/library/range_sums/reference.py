from itertools import accumulate


def range_sums(values, lefts, rights):
    before = list(accumulate(values, initial=0))
    return [before[right] - before[left] for left, right in zip(lefts, rights, strict=True)]
