"""A language model of a few million parameters, trained here from nothing, and the tasks it can learn on."""
