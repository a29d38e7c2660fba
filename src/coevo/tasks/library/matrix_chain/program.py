def chain_cost(sizes):
    known = {}

    def cost(part):
        key = tuple(part)
        if len(part) <= 2:
            return 0
        if key not in known:
            best = None
            for cut in range(1, len(part) - 1):
                total = cost(part[: cut + 1]) + cost(part[cut:]) + part[0] * part[cut] * part[-1]
                if best is None or total < best:
                    best = total
            known[key] = best
        return known[key]

    return cost(sizes)
