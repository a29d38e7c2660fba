"""Programs with the corners of Python's syntax that text edits stumble over."""

from coevo.programs import Program

PACKING = '''\
"""Points on a circle."""

import math

SEED = 12345


# EVOLVE-BLOCK-START
def points(n: int = 8, radius: float = 0.5) -> list[tuple[float, float]]:
    """The n points.

    0.25 of nothing.
    """
    out = []
    step = 2.0 * math.pi / n  # radians
    for i in range(n):
        angle = i * step + 0.125
        if i % 3 == 2 and angle > 1.5:
            radius *= 0.99
        else:
            radius += 1e-3
        out.append((0.5 + radius * math.cos(angle), 0.5 - radius * math.sin(angle)))
    best = min(out, key=lambda p: p[0] + 3 * p[1])
    return sorted(out, key=lambda p: abs(p[0] - best[0]))
# EVOLVE-BLOCK-END


def run():
    return points(12, 0.75)
'''

UNICODE = """\
def größe(wörter):
    # Länge in Zeichen: ä ö ü
    s = "äöü€😀" * 2; t = 3
    summe = len(s) + t - 7
    for wort in wörter: summe += len(wort) * 2
    text = f"{summe:>{10}} {t + 1!r} {'x' * 3}"
    return summe if summe > 10 else len(text)
"""

TABS = "def f(n):\n\ttotal = 0\n\twhile n > 0:\n\t\ttotal += n % 10\n\t\tn //= 10\n\treturn total\n\n\ndef g(n):\n\treturn f(n) + f(n + 2)\n"

CORNERS = '''\
from functools import lru_cache
import heapq


@lru_cache(maxsize=128)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Grid:
    size = 16

    def __init__(self, rows, *, wrap=True, flag=0x10):
        self.rows = [[0] * self.size for _ in range(rows)]; self.wrap = wrap
        self.flag = flag | 0b11

    @property
    def total(self):
        return sum(x for row in self.rows for x in row)

    def at(self, i, j):
        match i:
            case 7:
                return -5
            case -3 | 4:
                pass
        try:
            return self.rows[i][j + 2 if self.wrap else j]
        except IndexError as error:
            raise KeyError(i) from error


def solve(values, limit=1_000):
    heap = [-v for v in values if v > 2 ** -2]
    heapq.heapify(heap)
    text = """a
  multi-line
    string"""
    while heap and len(text) < limit:
        top = -heapq.heappop(heap)
        if not top: break
        values = {**dict.fromkeys(values, 2.5)}
        text += "x" \\
            "y"
    a, *b = 1, 2, 3
    return max(a, -2.5), b, text, 1e100, 3j, True
'''

PLAIN = {
    "packing": PACKING,
    "unicode": UNICODE,
    "tabs": TABS,
    "corners": CORNERS,
    "crlf": TABS.replace("\t", "    ").replace("\n", "\r\n"),
    "no last newline": "x = 3\ny = x * 2.5",
    "method block": (
        "class A:\n    # EVOLVE-BLOCK-START\n    def f(self, x):\n        y = x + 2\n        return y * 3.0\n"
        "    # EVOLVE-BLOCK-END\n\n    def g(self):\n        return self.f(4)\n"
    ),
}
PROGRAMS = {
    **{name: Program.of(source) for name, source in PLAIN.items()},
    "two blocks": Program.of(
        "# EVOLVE-BLOCK-START\na = 5\nb = a + 2\n# EVOLVE-BLOCK-END\nc = 6\n"
        "# EVOLVE-BLOCK-START\nd = a * c\nprint(d, 7.5)\n# EVOLVE-BLOCK-END\n"
    ),
    "files": Program.of(
        {"program.py": "from helper import sq\n\n\ndef f(x):\n    return sq(x) + 4\n", "helper.py": TABS}
    ),
    "frozen file": Program.of({"program.py": PACKING, "helper.py": TABS, "data.txt": "5 6 7\n"}),
}


def outside(program: Program) -> list[tuple[str, list[str]]]:
    """The text that may not change: for each file, what stands outside its blocks, markers included."""
    from coevo.evolution.blocks import editable

    kept: list[tuple[str, list[str]]] = []
    spans = editable(program)
    for name, text in program.files:
        edges = [0, *(edge for span in spans[name] for edge in span), len(text)]
        kept.append((name, [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]))
    return kept
