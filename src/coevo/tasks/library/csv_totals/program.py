import sys


def fields_of(line):
    fields = [""]
    quoted = False
    position = 0
    while position < len(line):
        mark = line[position]
        if quoted and mark == '"' and line[position + 1 : position + 2] == '"':
            fields[-1] += '"'
            position += 1
        elif mark == '"':
            quoted = not quoted
        elif mark == "," and not quoted:
            fields.append("")
        else:
            fields[-1] += mark
        position += 1
    return fields


pairs = []
totals = []
for line in sys.stdin.read().splitlines()[1:]:
    region, product, amount = fields_of(line)
    if [region, product] not in pairs:
        pairs.append([region, product])
        totals.append(0)
    totals[pairs.index([region, product])] += int(amount)

rows = sorted((-total, *pair) for pair, total in zip(pairs, totals, strict=True))
for total, region, product in rows:
    print(-total, region, product, sep="\t")
