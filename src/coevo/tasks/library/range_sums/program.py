def range_sums(values, lefts, rights):
    answers = []
    for k in range(len(lefts)):
        part = values[lefts[k] : rights[k]]
        answers.append(sum(part))
    return answers
