"""`python -m coevo.lab.worker LAB`: train one branch of a lab in a process of its own. The order comes on stdin, the answer goes to stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    from coevo.lab.branches import Branches
    from coevo.lab.driver import read_lab
    from coevo.lab.harness import Harness

    lab = Path(sys.argv[1])
    order = json.loads(sys.stdin.read())
    config, ledger = read_lab(lab)
    branches = Branches(lab, config, Harness(lab))
    found = branches.train_one(ledger, ledger.branches[order["branch"]], order["step"], order["budget"])
    print(json.dumps(found._asdict()))


if __name__ == "__main__":
    main()
