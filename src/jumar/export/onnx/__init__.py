"""A model as an ONNX file: the exporter, the check against PyTorch, and what ATC takes of it."""
