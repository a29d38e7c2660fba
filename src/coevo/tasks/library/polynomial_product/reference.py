def multiply(a, b):
    """Kronecker substitution: multiply the values at a power of two so large that coefficients do not mix."""
    if not a or not b:
        return []
    length = len(a) + len(b) - 1
    bound = max(1, *map(abs, a)) * max(1, *map(abs, b)) * min(len(a), len(b))
    width = (bound.bit_length() + 9) // 8  # bytes per coefficient, its sign included
    half = 1 << (8 * width - 1)

    def packed(coefficients):
        raw = b"".join([(value + half).to_bytes(width, "little") for value in coefficients])
        return int.from_bytes(raw, "little") - halves(len(coefficients))

    def halves(count):
        """What adding `half` to every coefficient, so that it is positive, adds to the packed number."""
        return int.from_bytes(half.to_bytes(width, "little") * count, "little")

    raw = (packed(a) * packed(b) + halves(length)).to_bytes(width * length, "little")
    return [int.from_bytes(raw[i : i + width], "little") - half for i in range(0, width * length, width)]
