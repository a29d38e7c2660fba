"""Replaying a proposed reward, filter, limit, diagnostic or rule on recorded rollouts, before any training. Pure functions."""
