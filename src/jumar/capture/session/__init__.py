"""A recording of one process: the settings, the rows and the writer's thread."""
