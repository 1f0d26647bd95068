"""Stands for the adapter of TensorFlow 1.15 on the CPU."""
