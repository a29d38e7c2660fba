def count_palindromes(text):
    count = 0
    for center in range(2 * len(text)):
        left = center // 2
        right = left + center % 2
        while left >= 0 and right < len(text) and text[left] == text[right]:
            count += 1
            left -= 1
            right += 1
    return count
