import csv
import sys

totals = {}
rows = csv.reader(sys.stdin)
next(rows)
for region, product, amount in rows:
    totals[region, product] = totals.get((region, product), 0) + int(amount)
for (region, product), total in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
    print(total, region, product, sep="\t")
