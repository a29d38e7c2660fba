import re
import sys
from collections import Counter

head, _, text = sys.stdin.read().partition("\n")
counts = Counter(re.findall("[a-z]+", text.lower()))
for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: int(head)]:
    print(word, count)
