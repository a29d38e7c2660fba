def longest_balanced(text):
    partner = {")": "(", "]": "[", "}": "{"}
    waiting = [-1]  # positions that are not part of a pair; the last one bounds the current balanced run
    longest = 0
    for position, mark in enumerate(text):
        last = waiting[-1]
        if mark in partner and last >= 0 and text[last] == partner[mark]:
            waiting.pop()
            if position - waiting[-1] > longest:
                longest = position - waiting[-1]
        else:
            waiting.append(position)
    return longest
