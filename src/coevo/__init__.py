"""Evolve programs, policies, and the training harness."""

__version__ = "0.1.0"
