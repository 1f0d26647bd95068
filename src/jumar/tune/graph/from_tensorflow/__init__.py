"""Models of TensorFlow as ONNX files, converted by tf2onnx in an interpreter that has TensorFlow."""
