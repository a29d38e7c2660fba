"""More programs that attack: kernel and frame tricks to look like the sandbox's fault, to hang it, to reach out unasked."""

from __future__ import annotations

from coevo.sandbox.types import Status

from .hostile import FAILS, TRY, Attack, make_attack

MORE_ATTACKS: tuple[Attack, ...] = (
    make_attack(
        "has the kernel kill it early",
        """
        import ctypes, resource, struct
        libc = ctypes.CDLL(None)
        number = {"x86_64": (160, 302), "aarch64": (164, 261)}[__import__("os").uname().machine]
        def f(where):
            for new in ((0, 0), (1, 1)):
                for change in (
                    lambda: resource.setrlimit(resource.RLIMIT_CPU, new),
                    lambda: resource.prlimit(0, resource.RLIMIT_CPU, new),
                    lambda: libc.syscall(number[0], 0, struct.pack("QQ", *new)),
                    lambda: libc.syscall(number[1], 0, 0, struct.pack("QQ", *new), None),
                ):
                    try: change()
                    except (OSError, ValueError): pass
            while True: pass
        """,
        Status.CPU,
    ),
    make_attack(
        "kills itself with every signal",
        """
        import os, signal, threading
        def f(where):
            for number in [9, *range(1, 65)]:
                for send in (
                    lambda: os.kill(os.getpid(), number),
                    lambda: signal.raise_signal(number),
                    lambda: signal.pthread_kill(threading.get_ident(), number),
                ):
                    signal.signal(number, signal.SIG_DFL) if number not in (9, 19, 32, 33) else None
                    send()
            while True: pass
        """,
        *FAILS,
        walls=False,
        wall_s=2,
    ),
    make_attack(
        "leaves its descriptors in flight in a socket",
        """
        import array, socket
        def f(where):
            a, b = socket.socketpair()
            fds = array.array("i", [a.fileno(), b.fileno(), 1, 2, 3])
            try: a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            except PermissionError: return "refused"
            return "in flight"
        """,
        value="refused",
    ),
    make_attack(
        "datagrams to whoever listens",
        TRY
        + """
import socket
def f(where):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        for place in (where["datagrams"], "\\0" + where["abstract"]):
            attempt((int(kind), place), lambda: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", place))
    return won
""",
        value=[],
    ),
    make_attack(
        "ends its first thread and works on",
        """
        import ctypes, os, threading
        def spin():
            while True: pass
        def f(where):
            for _ in range(2): threading.Thread(target=spin).start()
            ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
        """,
        Status.CPU,
        walls=False,
        memory_mb=256,
    ),
    make_attack(
        "a fault that claims to be an answer",
        """
        import os, struct
        def f(where):
            os.write(3, struct.pack("<BI", 3, 2) + b"\\1N")
            os._exit(5)
        """,
        Status.INVALID,
        walls=False,
    ),
    make_attack(
        "claims to be done",
        """
        import os, struct
        def f(where):
            os.write(3, struct.pack("<BI", 4, 0))
            os._exit(0)
        """,
        Status.EXITED,
        walls=False,
    ),
    make_attack(
        "an error of a place that is none",
        """
        import os, struct
        def text(raw): return b"s\\xff" + struct.pack("<Q", len(raw)) + raw
        def number(n): return b"I\\xff" + struct.pack("<Q", 3000) + n.to_bytes(3000, "little")
        def f(where):
            for line, file in ((number(10 ** 5000), text(b"program.py")), (b"i" + struct.pack("<q", 1), text(b"\\0\\xed\\xa0\\x80" * 9))):
                told = b"t\\4" + text(b"error") + text(b"x") + line + file
                os.write(3, struct.pack("<BI", 1, 0) + struct.pack("<BI", 2, len(told)) + told)
            os._exit(0)
        """,
        *FAILS,
        walls=False,
    ),
    make_attack(
        "numbers that no array has",
        """
        import os, struct
        def f(where):
            n = 7000
            body = b"\\1A\\3<f8\\xff" + struct.pack("<Q", n) + (b"\\xff" + struct.pack("<Q", 1 << 63)) * n + b"\\0"
            os.write(3, struct.pack("<BI", 1, 0) + struct.pack("<BI", 2, len(body)) + body)
            os._exit(0)
        """,
        *FAILS,
        walls=False,
    ),
    make_attack(
        "locks what others read",
        TRY
        + """
import fcntl, os
def f(where):
    for path in (where["secret"], where["source"]):
        attempt(path, lambda: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
    return won
""",
        value=[],
    ),
)
