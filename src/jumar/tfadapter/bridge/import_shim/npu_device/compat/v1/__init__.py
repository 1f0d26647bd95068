"""TensorFlow 1 under TensorFlow 2."""
