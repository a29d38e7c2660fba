def neighbours(board, row, column):
    rows, columns = len(board), len(board[0])
    count = 0
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            if (down, right) != (0, 0) and board[(row + down) % rows][(column + right) % columns] == "#":
                count += 1
    return count


def evolve(board, steps):
    for _ in range(steps):
        following = []
        for row in range(len(board)):
            cells = ""
            for column in range(len(board[0])):
                alive = neighbours(board, row, column)
                if alive == 3 or (alive == 2 and board[row][column] == "#"):
                    cells += "#"
                else:
                    cells += "."
            following.append(cells)
        board = following
    return board
