"""How logs are read: which files, what they are packed in, blocks of lines, and which lines are worth a look."""
