def best_value(capacity, items):
    known = {}

    def best(index, room):
        if index == len(items):
            return 0
        if (index, room) not in known:
            weight, value = items[index]
            result = best(index + 1, room)
            if weight <= room:
                result = max(result, value + best(index + 1, room - weight))
            known[index, room] = result
        return known[index, room]

    return best(0, capacity)
