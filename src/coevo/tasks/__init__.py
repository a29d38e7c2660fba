"""Tasks: what is asked, how answers are judged. See `coevo.tasks.types` for the values, docs/tasks.md for the format."""

from coevo.tasks.loader import list_tasks, load_task, task_digest

__all__ = ["list_tasks", "load_task", "task_digest"]
