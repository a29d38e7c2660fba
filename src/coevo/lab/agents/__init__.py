"""Who proposes: `playbook` (no model), `model`, `command` (a headless coding agent), `scripted`."""
