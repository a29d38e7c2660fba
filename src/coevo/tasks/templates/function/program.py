def most_common(values):
    best = min(values)
    for value in values:
        more = values.count(value) > values.count(best)
        as_many = values.count(value) == values.count(best)
        if more or (as_many and value < best):
            best = value
    return best
