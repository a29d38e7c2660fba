def count_covers(count, pieces):
    def cover(covered):
        missing = [number for number in range(count) if number not in covered]
        if not missing:
            return 1
        ways = 0
        for piece in pieces:
            if missing[0] in piece and not covered & set(piece):
                ways += cover(covered | set(piece))
        return ways

    return cover(set())
