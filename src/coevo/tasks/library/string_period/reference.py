def smallest_period(text):
    # border[i] is the length of the longest proper prefix of text[:i] that is also its suffix.
    border = [0] * (len(text) + 1)
    length = 0
    for i in range(1, len(text)):
        while length and text[i] != text[length]:
            length = border[length]
        if text[i] == text[length]:
            length += 1
        border[i + 1] = length
    return len(text) - border[-1]
