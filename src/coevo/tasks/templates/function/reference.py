from collections import Counter


def most_common(values):
    counts = Counter(values)
    most = max(counts.values())
    return min(value for value, count in counts.items() if count == most)
