"""Arms at matched budgets on held-out tasks, and what can be said of their differences."""
