"""What runs behind the walls. These files are executed by a clean Python that has no coevo: they import only each other."""
