"""`python -m coevo.lab.worker LAB`: train one branch of a lab in a process of its own. The order comes on stdin, the answer goes to stdout."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from coevo.errors import CoevoError, StoreError


def die_with(parent: int) -> None:
    """End when the process that asked for us does: killed with -9, it could not say so, and we would hold the branch and the GPU."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    lab = Path(sys.argv[1])
    order = json.loads(sys.stdin.read())
    die_with(order["parent"])
    from coevo.lab.branches import Branches
    from coevo.lab.driver import read_lab
    from coevo.lab.harness import Harness

    try:
        config, ledger = read_lab(lab)
        branches = Branches(lab, config, Harness(lab))
        found = branches.train_one(ledger, ledger.branches[order["branch"]], order["step"], order["budget"])
    except CoevoError as e:
        print(json.dumps({"error": str(e), "stored": isinstance(e, StoreError)}))
        sys.exit(e.exit_code)
    print(json.dumps(found._asdict()))


if __name__ == "__main__":
    main()
