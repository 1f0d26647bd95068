"""Dropout layers stay TensorFlow's own here."""
