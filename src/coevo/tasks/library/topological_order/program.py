def order(count, earlier, later):
    needs = {job: set() for job in range(count)}
    for a, b in zip(earlier, later, strict=True):
        needs[b].add(a)
    done = []
    while len(done) < count:
        finished = set(done)
        ready = [job for job in needs if needs[job] <= finished]
        if not ready:
            return []
        for job in ready:
            done.append(job)
            del needs[job]
    return done
