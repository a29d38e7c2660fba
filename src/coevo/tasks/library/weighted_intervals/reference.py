from bisect import bisect_right


def best_total(bookings):
    ordered = sorted(bookings, key=lambda booking: booking[1])
    ends = [end for _, end, _ in ordered]
    best = [0]
    for start, _, price in ordered:
        best.append(max(best[-1], best[bisect_right(ends, start, 0, len(best) - 1)] + price))
    return best[-1]
