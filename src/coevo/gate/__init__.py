"""Is a gain real: checks that fail closed, a paired sequential test with a spending plan, five verdicts. Calibrated on twins."""
