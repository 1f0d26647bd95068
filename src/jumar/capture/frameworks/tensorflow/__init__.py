"""Programs of TensorFlow, run on the CPU as TensorFlow itself runs them, with the adapter's names."""
