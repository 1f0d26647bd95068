"""The history of a run: a few numbers of every step, recorded in detail or not. `History` reads it."""
