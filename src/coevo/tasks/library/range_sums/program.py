def range_sums(values, queries):
    answers = []
    for left, right in queries:
        part = values[left:right]
        answers.append(sum(part))
    return answers
