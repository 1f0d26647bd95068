"""What the source of a TensorFlow script sets, read without TensorFlow."""
