rows, columns = map(int, input().split())
maze = [input() for _ in range(rows)]

goal = None
steps = {}
for row in range(rows):
    for column in range(columns):
        if maze[row][column] == "S":
            steps[row, column] = 0
        if maze[row][column] == "E":
            goal = (row, column)

changed = True
while changed:
    changed = False
    for row in range(rows):
        for column in range(columns):
            if maze[row][column] == "#":
                continue
            for neighbour in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if neighbour in steps and steps[neighbour] + 1 < steps.get((row, column), rows * columns):
                    steps[row, column] = steps[neighbour] + 1
                    changed = True
print(steps.get(goal, -1))
