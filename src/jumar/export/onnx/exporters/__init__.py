"""PyTorch's two exporters of ONNX, and the choice between them."""
