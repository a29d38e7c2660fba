"""The lab: an autonomous trainer that co-evolves a policy and the harness that trains and interprets it."""
