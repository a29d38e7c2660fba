def best_total(bookings):
    ordered = sorted(bookings, key=lambda booking: booking[1])
    best = [0]  # best[i]: the most that the first i bookings can bring
    for i in range(len(ordered)):
        start, _, price = ordered[i]
        j = i
        while j > 0 and ordered[j - 1][1] > start:
            j -= 1
        best.append(max(best[i], best[j] + price))
    return best[-1]
