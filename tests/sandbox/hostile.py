"""Programs that attack: what each does, how its execution must end, and what it may bring home (nothing).

Each defines `f(where)`; `where` names what there is to attack: a secret file, a folder, a port, an abstract socket. Those that try
many things return the list of what they managed, so that an empty list is the right answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

from coevo.sandbox.types import Execution, Limits, Status

ANYTHING = object()
FAILS = frozenset(Status) - {Status.OK, Status.INFRASTRUCTURE, Status.SKIPPED}
LIMITS = Limits(cpu_s=0.2, wall_s=30, memory_mb=64, output_bytes=1 << 16, disk_mb=4)


@dataclass(frozen=True)
class Attack:
    """`ends` are the accepted statuses; on an OK one, the value must be `value`. `walls`: not what rlimits promise."""

    name: str
    source: str
    ends: frozenset[Status]
    value: object = ANYTHING
    walls: bool = True
    limits: Limits = field(default=LIMITS)

    def judge(self, execution: Execution) -> None:
        call = execution.calls[0]
        assert execution.status in self.ends, (execution.status, execution.error, call.value, execution.stderr[-300:])
        if execution.status is Status.OK and self.value is not ANYTHING:
            assert type(call.value) is type(self.value) and call.value == self.value, call.value


def make_attack(
    name: str, source: str, *ends: Status, value: object = ANYTHING, walls: bool = True, **limits: object
) -> Attack:
    accepted = frozenset(ends) or frozenset({Status.OK})
    return Attack(name, dedent(source), accepted, value, walls, LIMITS.model_copy(update=limits))


TRY = """
won = []
def attempt(name, action):
    try:
        result = action()
    except BaseException:
        return
    if result is not False:
        won.append(name)
"""

ATTACKS = (
    # Time.
    make_attack(
        "infinite loop, all signals ignored",
        """
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        def f(where):
            while True: pass
        """,
        Status.CPU,
        walls=False,
    ),
    make_attack(
        "sleeps for ever",
        "import time\ndef f(where):\n    while True: time.sleep(1)",
        Status.WALL,
        walls=False,
        wall_s=0.3,
    ),
    make_attack("loops while it loads", "while True: pass\ndef f(where): return 1", Status.CPU, walls=False),
    make_attack(
        "a huge integer in C code",
        "def f(where): return len(str(7 ** (10 ** 8)))",
        Status.CPU,
        Status.WALL,
        walls=False,
        memory_mb=512,
    ),
    make_attack(
        "spins in many threads",
        """
        import threading
        def spin():
            while True: pass
        def f(where):
            for _ in range(8): threading.Thread(target=spin).start()
            spin()
        """,
        Status.CPU,
        walls=False,
        memory_mb=256,
    ),
    make_attack(
        "leaves a thread behind",
        """
        import threading
        def spin():
            while True: pass
        def f(where):
            threading.Thread(target=spin).start()
            return 1
        """,
        value=1,
        walls=False,
    ),
    make_attack(
        "loops at exit",
        "import atexit\n@atexit.register\ndef spin():\n    while True: pass\ndef f(where): return 1",
        value=1,
        walls=False,
    ),
    make_attack(
        "patches every clock",
        """
        import time, os
        for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
            setattr(time, name, lambda: 0.0)
        os.times = lambda: (0,) * 5
        def f(where):
            for _ in range(10 ** 12): pass
        """,
        Status.CPU,
        walls=False,
    ),
    # Space.
    make_attack(
        "a memory bomb",
        "def f(where):\n    held = []\n    while True: held.append(bytearray(1 << 20))",
        Status.MEMORY,
        walls=False,
    ),
    make_attack("asks for 20 GB", "def f(where): return len(bytearray(20 << 30))", Status.MEMORY, walls=False),
    make_attack(
        "touches 3 GB",
        "def f(where):\n    x = bytearray(3 << 30)\n    x[::4096] = b'1' * (len(x) // 4096)",
        Status.MEMORY,
        walls=False,
    ),
    make_attack(
        "catches MemoryError and goes on",
        """
        def f(where):
            held = []
            while True:
                try: held.append(bytearray(1 << 20))
                except MemoryError: pass
        """,
        Status.CPU,
        Status.MEMORY,
        walls=False,
    ),
    make_attack(
        "runaway recursion",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(where): return f(where)",
        Status.MEMORY,
        Status.CRASHED,
        Status.ERROR,
        Status.CPU,
        walls=False,
    ),
    make_attack(
        "recursion in C",
        """
        import sys
        sys.setrecursionlimit(10 ** 9)
        class A:
            def __repr__(self): return repr(self)
        def f(where): return repr(A())
        """,
        *FAILS,
        walls=False,
    ),
    make_attack("an output flood", "def f(where):\n    while True: print('x' * 10000)", Status.OUTPUT, walls=False),
    make_attack(
        "an error flood",
        "import os\ndef f(where):\n    while True: os.write(2, b'x' * 10000)",
        Status.OUTPUT,
        walls=False,
    ),
    make_attack("returns too much", "def f(where): return 'x' * (1 << 20)", Status.OUTPUT, walls=False),
    make_attack("raises too much", "def f(where): raise ValueError('x' * (1 << 20))", Status.ERROR, walls=False),
    make_attack(
        "fills the disk",
        """
        import os
        def f(where):
            written = 0
            for folder in ("/tmp", "/dev/shm", ".", "/var/tmp", "/"):
                for i in range(40):
                    try:
                        with open(f"{folder}/fill{folder[1:2]}{i}", "wb") as file:
                            written += file.write(bytes(1 << 19))
                    except OSError: break
            return written <= 5 << 20
        """,
        value=True,
    ),
    make_attack(
        "a million empty files",
        """
        def f(where):
            n = 0
            try:
                for i in range(10 ** 6):
                    open(f"/tmp/{i}", "w").close()
                    n += 1
            except OSError: pass
            return n < 5000
        """,
        Status.OK,
        Status.CPU,
        value=True,
    ),
    make_attack(
        "memory that is not address space",
        """
        import os, ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def f(where):
            won = []
            try: won.append(os.memfd_create("x"))
            except OSError: pass
            if libc.shmget(0, 1 << 30, 0o1600) >= 0: won.append("shm")
            if libc.mq_open(b"/x", 0o102, 0o600, None) >= 0: won.append("mq")
            return won
        """,
        value=[],
    ),
    # Processes.
    make_attack(
        "a fork bomb",
        """
        import os
        def f(where):
            n = 0
            while True:
                try: os.fork()
                except OSError: break
            return 0
        """,
        value=0,
    ),
    make_attack(
        "a thread bomb",
        """
        import threading, time
        threading.stack_size(32768)
        def f(where):
            n = 0
            try:
                while n < 5000:
                    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
                    n += 1
            except RuntimeError: pass
            return n < 1000
        """,
        Status.OK,
        Status.MEMORY,
        value=True,
        cpu_s=2.0,
    ),
    make_attack(
        "other programs",
        TRY
        + """
import os, subprocess, multiprocessing, sys
def f(where):
    attempt("system", lambda: os.system("true") == 0)
    attempt("popen", lambda: subprocess.run([sys.executable, "-c", ""]).returncode == 0)
    attempt("spawn", lambda: os.posix_spawn(sys.executable, [sys.executable], {}))
    attempt("exec", lambda: os.execv(sys.executable, [sys.executable, "-c", ""]))
    attempt("process", lambda: multiprocessing.get_context("fork").Process(target=print).start())
    return won
""",
        value=[],
    ),
    make_attack(
        "an orphan that holds stdout",
        """
        import os, time
        def f(where):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(60)
                os._exit(0)
            return 1
        """,
        Status.ERROR,
    ),
    make_attack(
        "CPU hidden in children that nobody waits for",
        """
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        def f(where):
            if os.fork() == 0:
                while True: pass
            time.sleep(0.3)
            return 1
        """,
        Status.ERROR,
    ),
    make_attack(
        "kills everything it can name",
        TRY
        + """
import os, signal
def f(where):
    for pid in (-1, os.getppid(), where["pid"], 0 - where["pid"], 1, 2):
        if pid not in (0, os.getpid()):
            attempt(pid, lambda: os.kill(pid, signal.SIGKILL))
    return [pid for pid in won if pid > 2 or pid == -where["pid"]]
""",
        Status.OK,
        Status.CRASHED,
        value=[],
    ),
    make_attack(
        "stops itself",
        "import os, signal, time\ndef f(where):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return 1",
        Status.OK,
        Status.WALL,
        walls=False,
        wall_s=1,
    ),
    make_attack(
        "signals by a pipe's owner",
        TRY
        + """
import fcntl, os, resource
def f(where):
    r, w = os.pipe()
    attempt("owner", lambda: fcntl.fcntl(r, fcntl.F_SETOWN, where["pid"]))
    attempt("signal", lambda: fcntl.fcntl(r, 10, 9))
    attempt("limits", lambda: resource.prlimit(where["pid"], resource.RLIMIT_CPU, (1, 1)))
    attempt("affinity", lambda: os.sched_setaffinity(where["pid"], {0}))
    attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, where["pid"], 19))
    return won
""",
        value=[],
    ),
    # Endings.
    make_attack("os._exit(0) before the answer", "import os\ndef f(where): os._exit(0)", Status.EXITED, walls=False),
    make_attack("os._exit(0) while it loads", "import os\nos._exit(0)", Status.EXITED, walls=False),
    make_attack("sys.exit(0) in the call", "import sys\ndef f(where): sys.exit(0)", Status.EXITED, walls=False),
    make_attack("sys.exit(0) while it loads", "import sys\nsys.exit(0)", Status.EXITED, walls=False),
    make_attack(
        "a segmentation fault", "import ctypes\ndef f(where): return ctypes.string_at(8)", Status.CRASHED, walls=False
    ),
    make_attack(
        "an abort",
        "import os\ndef f(where): os.abort()",
        Status.CRASHED,
        Status.EXITED,
        Status.WALL,
        walls=False,
        wall_s=2,
    ),
    make_attack(
        "raises what is not to be caught",
        "class E(BaseException): pass\ndef f(where): raise E('x')",
        Status.ERROR,
        walls=False,
    ),
    make_attack(
        "an error that cannot be printed",
        """
        class E(Exception):
            def __str__(self): raise SystemExit(0)
            __repr__ = __str__
        def f(where): raise E
        """,
        Status.ERROR,
        walls=False,
    ),
    make_attack(
        "streams that cannot be flushed",
        """
        import sys
        class S:
            def flush(self): raise SystemExit(0)
            write = flush
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = S()
        def f(where): return 1
        """,
        value=1,
        walls=False,
    ),
    make_attack(
        "closes its descriptors",
        "import os\ndef f(where):\n    os.closerange(0, 64)\n    return 1",
        *FAILS,
        walls=False,
    ),
    # Forged answers.
    make_attack(
        "an object that equals everything",
        """
        class Any:
            def __eq__(self, other): return True
            def __hash__(self): return 1
        def f(where): return Any()
        """,
        Status.INVALID,
        walls=False,
    ),
    make_attack(
        "text that equals everything",
        """
        class Text(str):
            def __eq__(self, other): return True
            def __str__(self): return "42"
            __hash__ = str.__hash__
        def f(where): return [Text("wrong")]
        """,
        value=["wrong"],
        walls=False,
    ),
    make_attack(
        "a class that claims to be float",
        """
        class Meta(type):
            def __eq__(self, other): return True
            def __hash__(self): return hash(float)
            def mro(cls): return [cls, object]
        class Number(metaclass=Meta):
            __class__ = float
            def __float__(self): return 1.0
        def f(where): return [Number()] * 9
        """,
        Status.INVALID,
        walls=False,
    ),
    make_attack("an endless generator", "def f(where):\n    while True: yield 1", Status.INVALID, walls=False),
    make_attack("a coroutine", "async def f(where): return 1", Status.INVALID, walls=False),
    make_attack(
        "a list that holds itself",
        "def f(where):\n    x = []\n    x.append(x)\n    return x",
        Status.INVALID,
        walls=False,
    ),
    make_attack(
        "pickles that run",
        "class P:\n    def __reduce__(self): return print, ('x',)\ndef f(where): return P()",
        Status.INVALID,
        walls=False,
    ),
    make_attack(
        "forged frames, then exit",
        """
        import os, struct
        def f(where):
            for kind in (0, 1, 2, 2, 3, 4, 200):
                os.write(3, struct.pack("<BI", kind, 5) + b"\\1i\\0\\0\\0")
            os.write(3, struct.pack("<BI", 2, 1 << 31))
            os._exit(0)
        """,
        *FAILS,
        walls=False,
    ),
    make_attack(
        "an answer that claims to be the sandbox's fault",
        """
        import os, struct
        text = b"t\\4" + b"s\\x0einfrastructure" + b"s\\1x" + b"NN"
        def f(where):
            os.write(3, struct.pack("<BI", 2, len(text)) + text)
            os._exit(99)
        """,
        *FAILS,
        walls=False,
    ),
    make_attack(
        "keys that collide",
        """
        import os, struct
        n = 6000
        body = b"S" + b"\\xff" + struct.pack("<Q", n) + b"".join(
            b"I\\x09" + (i * (2 ** 61 - 1)).to_bytes(9, "little") for i in range(1 << 8, (1 << 8) + n))
        def f(where):
            os.write(3, struct.pack("<BI", 2, len(body) + 1) + b"\\1" + body)
            os._exit(0)
        """,
        *FAILS,
        walls=False,
        output_bytes=1 << 20,
    ),
    # Secrets and reach.
    make_attack(
        "walks frames, gc and modules for the answer",
        TRY
        + """
import gc, sys
backwards = "rewsna-neddih-eht"
def f(where):
    def holds(o):
        return backwards[::-1] in str(o)
    for o in gc.get_objects():
        if type(o) in (list, tuple, dict):
            attempt("gc", lambda: holds(o))
    frame = sys._getframe()
    while frame:
        attempt("frame", lambda: holds([frame.f_globals, frame.f_locals]))
        frame = frame.f_back
    attempt("coevo", lambda: __import__("coevo"))
    attempt("main", lambda: holds(vars(sys.modules["__main__"])))
    return won
""",
        value=[],
        cpu_s=3.0,
        output_bytes=1 << 20,
    ),
    make_attack(
        "reads hidden tests, environment, /etc, /proc",
        TRY
        + """
import os, glob
def f(where):
    for path in (where["secret"], "/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline", "/proc/self/maps", where["source"]):
        attempt(path, lambda: open(path, "rb").read(1))
    for folder in (where["folder"], "/proc", "/home", "/etc", "/sys", "/var", os.path.dirname(where["source"])):
        attempt(folder, lambda: os.listdir(folder))
    attempt("environment", lambda: any("KEY" in name or "SECRET" in name for name in os.environ))
    attempt("parent", lambda: open(f"/proc/{os.getppid()}/environ").read())
    return won
""",
        value=[],
    ),
    make_attack(
        "other people's packages",
        TRY
        + """
import sys
def f(where):
    for name in ("coevo", "pydantic", "yaml", "hypothesis", "pytest", "rich"):
        attempt(name, lambda: __import__(name))
    for folder in where["packages"]:
        sys.path.insert(0, folder)
    for name in ("coevo", "pydantic", "yaml", "hypothesis", "pytest", "rich"):
        attempt(name + " by path", lambda: __import__(name))
    return won
""",
        value=[],
    ),
    make_attack(
        "writes outside",
        TRY
        + """
import os, sys, shutil
def f(where):
    for path in (where["folder"] + "/x", "/x", "/usr/x", os.path.dirname(os.__file__) + "/x.py", "/home/x", "/packages/x", "/dev/x", "/etc/x"):
        attempt(path, lambda: open(path, "w").write("x"))
    attempt("append", lambda: open(where["secret"], "a").write("x"))
    attempt("append to os.py", lambda: open(os.__file__, "a").write("#"))
    attempt("remove", lambda: os.remove(where["secret"]))
    attempt("rename", lambda: os.rename(where["secret"], where["secret"] + "2"))
    attempt("truncate", lambda: os.truncate(where["secret"], 0))
    attempt("chmod", lambda: os.chmod(where["secret"], 0o777))
    attempt("touch", lambda: os.utime(where["secret"], (1, 1)))
    attempt("link", lambda: os.link(where["secret"], "link"))
    attempt("xattr", lambda: os.setxattr(where["secret"], "user.x", b"1"))
    attempt("fifo", lambda: os.mkfifo(where["folder"] + "/fifo"))
    return won
""",
        value=[],
    ),
    make_attack(
        "connects to loopback and an abstract socket",
        TRY
        + """
import socket, os
def f(where):
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", where["port"]), 0.2))
    attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", where["port"])))
    attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
    attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + where["abstract"]))
    attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    return won
""",
        value=[],
    ),
    make_attack(
        "the kernel's surface",
        """
        import ctypes, os, errno
        libc = ctypes.CDLL(None, use_errno=True)
        def f(where):
            won = []
            def call(name, number, *args):
                if libc.syscall(number, *args) >= 0: won.append(name)
            numbers = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
            for name, pair, args in (
                ("unshare user", (272, 97), (0x10000000,)), ("unshare mount", (272, 97), (0x20000,)), ("setns", (308, 268), (0, 0)),
                ("mount", (165, 40), (b"x", b"/tmp", b"tmpfs", 0, None)), ("umount", (166, 39), (b"/tmp", 2)),
                ("pivot_root", (155, 41), (b"/tmp", b"/tmp")), ("chroot", (161, 51), (b"/tmp",)),
                ("ptrace", (101, 117), (0, 0, 0, 0)), ("bpf", (321, 280), (0, None, 0)), ("perf", (298, 241), (b"\\0" * 128, 0, -1, -1, 0)),
                ("io_uring", (425, 425), (4, b"\\0" * 128)), ("keyctl", (250, 219), (0, -3, 1)), ("add_key", (248, 217), (b"user", b"x", b"y", 1, -3)),
                ("userfaultfd", (323, 282), (1,)), ("memfd", (319, 279), (b"x", 0)), ("process_vm_readv", (310, 270), (os.getpid(), None, 0, None, 0, 0)),
                ("open_by_handle", (304, 265), (0, b"\\0" * 64, 0)), ("swapon", (167, 224), (b"/tmp/x", 0)), ("sethostname", (170, 161), (b"x", 1)),
                ("seccomp off", (317, 277), (0, 0, None)), ("personality", (135, 92), (0x40000,)), ("init_module", (175, 105), (b"", 0, b"")),
                ("clone user", (56, 220), (0x10000011, 0, 0, 0, 0)), ("clone3", (435, 435), (b"\\0" * 88, 88)), ("setuid", (105, 146), (0,)),
                ("pidfd_open", (434, 434), (os.getpid(), 0)), ("fanotify", (300, 262), (0, 0)), ("mknod", (259, 33), (-100, b"/tmp/n", 0o20666, 0x103)),
                ("death signal", (157, 167), (1, 0, 0, 0, 0)), ("dumpable", (157, 167), (4, 1, 0, 0, 0)), ("x32", (0x40000000 + 39, 0x40000000 + 39), ()),
            ):
                call(name, pair[numbers], *args)
            return won
        """,
        value=[],
    ),
    make_attack(
        "inherited descriptors",
        """
        import os
        def f(where):
            found = []
            for fd in range(4, 1024):
                try: os.fstat(fd)
                except OSError: continue
                found.append(fd)
            return found
        """,
        value=[],
    ),
    make_attack(
        "raises its own limits",
        TRY
        + """
import resource
def f(where):
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        soft, hard = resource.getrlimit(kind)
        attempt(kind, lambda: resource.setrlimit(kind, (hard * 2, hard * 2)))
    return won
""",
        value=[],
        walls=False,
    ),
    # Data that is odd, and none of our business.
    make_attack("returns infinity", "def f(where): return float('inf')", value=float("inf"), walls=False),
    make_attack("returns NaN", "def f(where): return [repr(float('nan'))]", value=["nan"], walls=False),
    make_attack("returns 10 ** 5000", "def f(where): return 10 ** 5000", value=10**5000, walls=False),
    make_attack("returns text for a score", "def f(where): return '1e9'", value="1e9", walls=False),
    make_attack(
        "all bytes and a lone surrogate",
        r"def f(where): return [bytes(range(256)), '\ud800', '\0']",
        value=[bytes(range(256)), "\ud800", "\0"],
        walls=False,
    ),
    make_attack("reads standard input", "import sys\ndef f(where): return sys.stdin.read()", value="", walls=False),
    make_attack(
        "patches what others use",
        """
        import builtins, json, os, sys
        builtins.sorted = builtins.sum = lambda *a, **k: 10 ** 9
        json.dumps = json.loads = os.write.__class__
        sys.modules["math"] = None
        sys.path[:] = []
        def f(where): return 1
        """,
        value=1,
        walls=False,
    ),
)
