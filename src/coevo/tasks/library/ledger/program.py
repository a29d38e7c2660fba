import sys
from copy import deepcopy

balances = {}
saved = []
for line in sys.stdin:
    command, *words = line.split()
    if command == "add":
        name, amount = words
        balances[name] = balances.get(name, 0) + int(amount)
    elif command == "move":
        source, target, amount = words
        if balances.get(source, 0) < int(amount):
            print("refused")
        else:
            balances[source] = balances.get(source, 0) - int(amount)
            balances[target] = balances.get(target, 0) + int(amount)
    elif command == "show":
        print(balances.get(words[0], 0))
    elif command == "begin":
        saved.append(deepcopy(balances))
    elif not saved:
        print("no transaction")
    elif command == "commit":
        saved.pop()
    else:
        balances = saved.pop()
