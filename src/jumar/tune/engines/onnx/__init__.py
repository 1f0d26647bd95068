"""Graphs as ONNX models: what ONNX Runtime and OpenVINO read. `model.to_onnx` writes one."""
