"""How a policy acts on a task, and the evidence that leaves."""
