"""TensorFlow 1 under TensorFlow 2."""

from jumar.tfadapter.bridge.device import enable_v1
