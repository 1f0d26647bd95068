"""The files that a conversion leaves beside the sources: the log, the list of changes, what is not supported."""
