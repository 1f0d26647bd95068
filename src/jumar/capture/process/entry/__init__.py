"""The file that a launcher starts in each process, by itself: its folder is first on the import path."""
