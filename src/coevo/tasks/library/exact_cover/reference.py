def count_covers(count, pieces):
    starting = [[] for _ in range(count)]  # the pieces, as bit masks, by their smallest number
    for piece in pieces:
        starting[min(piece)].append(sum(1 << number for number in piece))
    full = (1 << count) - 1

    def cover(covered):
        if covered == full:
            return 1
        first = (~covered & (covered + 1)).bit_length() - 1
        return sum(cover(covered | mask) for mask in starting[first] if not mask & covered)

    return cover(0)
