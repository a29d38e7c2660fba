"""Excess over the L1 bound, in per cent; replays prove that the packing was online."""

from coevo.tasks.online import score_packings

LENGTH = 500


def score_all(outputs, instances):
    return score_packings(outputs, instances, LENGTH)
