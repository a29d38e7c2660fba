from collections import deque


def window_maxima(values, width):
    maxima = []
    falling = deque()  # positions whose values fall: the front is the maximum of the window
    for position, value in enumerate(values):
        while falling and values[falling[-1]] <= value:
            falling.pop()
        falling.append(position)
        if falling[0] <= position - width:
            falling.popleft()
        if position >= width - 1:
            maxima.append(values[falling[0]])
    return maxima
