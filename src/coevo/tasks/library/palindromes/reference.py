def radii(text, even):
    """radius[i]: how many palindromes of this parity have their (right) middle at i (Manacher, 1975)."""
    n = len(text)
    radius = [0] * n
    left, right = 0, -1
    for i in range(n):
        k = min(radius[left + right - i + even], right - i + 1) if i <= right else 1 - even
        while i - k - even >= 0 and i + k < n and text[i - k - even] == text[i + k]:
            k += 1
        radius[i] = k
        if i + k - 1 > right:
            left, right = i - k + 1 - even, i + k - 1
    return radius


def count_palindromes(text):
    return sum(radii(text, 0)) + sum(radii(text, 1))
