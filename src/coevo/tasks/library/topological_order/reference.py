def order(count, earlier, later):
    after = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in zip(earlier, later, strict=True):
        after[a].append(b)
        waits[b] += 1
    done = [job for job in range(count) if not waits[job]]
    for job in done:
        for other in after[job]:
            waits[other] -= 1
            if not waits[other]:
                done.append(other)
    return done if len(done) == count else []
