def most_common(values):
    best = min(values)
    for value in sorted(set(values)):
        if values.count(value) > values.count(best):
            best = value
    return best
