"""What MindSpore writes: checkpoints, dumps, graphs as text."""
