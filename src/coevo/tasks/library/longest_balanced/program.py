PARTNER = {")": "(", "]": "[", "}": "{"}


def balanced_from(text, start):
    """Length of the longest balanced part that begins at start."""
    waiting = []
    longest = 0
    for position in range(start, len(text)):
        mark = text[position]
        if mark not in PARTNER:
            waiting.append(mark)
        elif not waiting or waiting.pop() != PARTNER[mark]:
            break
        if not waiting:
            longest = position + 1 - start
    return longest


def longest_balanced(text):
    longest = 0
    for start in range(len(text)):
        longest = max(longest, balanced_from(text, start))
    return longest
