"""Data synthesis: trajectories from samples and from recorded searches."""
