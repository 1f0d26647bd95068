"""ONNX models as modules of PyTorch's operators."""
