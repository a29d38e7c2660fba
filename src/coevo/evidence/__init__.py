"""Rollouts of any trainer, as columns: readers, and the frame that diagnostics, backtests and the gate are functions of."""
