"""`python -m coevo` is the command `coevo`."""

import sys

from coevo.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
