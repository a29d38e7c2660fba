import sys


def main():
    lines = sys.stdin.read().split()
    width = int(lines[1]) + 1
    cells = "#" * width + "#".join(lines[2:]) + "#" * (width + 1)  # walls all around: no cell has a neighbour outside
    start, goal = cells.index("S"), cells.index("E")
    free = [mark != "#" for mark in cells]
    free[start] = False
    front, steps = [start], 0
    while front:
        if goal in front:
            print(steps)
            return
        ahead = []
        for cell in front:
            for neighbour in (cell - 1, cell + 1, cell - width, cell + width):
                if free[neighbour]:
                    free[neighbour] = False
                    ahead.append(neighbour)
        front, steps = ahead, steps + 1
    print(-1)


main()
