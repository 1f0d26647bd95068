"""C++ of the observer's hot path: one pass over the memory for statistics and sketch, and the notes of operators."""
