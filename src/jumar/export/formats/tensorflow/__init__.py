"""Checkpoints of TensorFlow, read without TensorFlow."""
