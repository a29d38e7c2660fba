k = int(input())

words = []
while True:
    try:
        line = input()
    except EOFError:
        break
    word = ""
    for mark in line + " ":
        if "a" <= mark.lower() <= "z":
            word += mark.lower()
        elif word:
            words.append(word)
            word = ""

counts = []
for word in sorted(set(words)):
    counts.append((-words.count(word), word))
counts.sort()
for count, word in counts[:k]:
    print(word, -count)
