def window_maxima(values, width):
    maxima = []
    for start in range(len(values) - width + 1):
        maxima.append(max(values[start : start + width]))
    return maxima
