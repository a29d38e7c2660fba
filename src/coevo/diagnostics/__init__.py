"""What rollouts say about a run: diagnostics (one file each), rules over them, and the diagnosis."""
