"""Skills: folders in the Agent Skills format that say when a change helps, make it, and check that it did."""
