import sys


def main():
    balances, undo, marks, out = {}, [], [], []  # undo: (name, change) in order; marks: its length at each open begin
    for line in sys.stdin:
        words = line.split()
        command = words[0]
        if command == "add":
            change = int(words[2])
            balances[words[1]] = balances.get(words[1], 0) + change
            if marks:
                undo.append((words[1], change))
        elif command == "move":
            source, target, amount = words[1], words[2], int(words[3])
            if balances.get(source, 0) < amount:
                out.append("refused")
                continue
            for name, change in ((source, -amount), (target, amount)):
                balances[name] = balances.get(name, 0) + change
                if marks:
                    undo.append((name, change))
        elif command == "show":
            out.append(str(balances.get(words[1], 0)))
        elif command == "begin":
            marks.append(len(undo))
        elif not marks:
            out.append("no transaction")
        else:
            mark = marks.pop()
            if command == "rollback":
                while len(undo) > mark:
                    name, change = undo.pop()
                    balances[name] -= change
            elif not marks:
                undo.clear()
    print("\n".join(out))


main()
