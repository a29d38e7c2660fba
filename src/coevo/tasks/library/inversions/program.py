def sort_and_count(values):
    if len(values) <= 1:
        return values, 0
    middle = len(values) // 2
    left, left_count = sort_and_count(values[:middle])
    right, right_count = sort_and_count(values[middle:])
    merged = []
    count = left_count + right_count
    while left and right:
        if left[0] <= right[0]:
            merged.append(left[0])
            left = left[1:]
        else:
            count += len(left)
            merged.append(right[0])
            right = right[1:]
    return merged + left + right, count


def count_inversions(values):
    return sort_and_count(values)[1]
