def smallest_period(text):
    n = len(text)
    for period in range(1, n + 1):
        if text[period:] == text[: n - period]:
            return period
    return 0
