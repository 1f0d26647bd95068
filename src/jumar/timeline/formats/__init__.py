"""One profiler's files a module: which files of a folder it knows, and their events."""
