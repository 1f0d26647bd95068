"""As much of the adapter of TensorFlow 1.15 as the converted programs need, for one process on the CPU."""
