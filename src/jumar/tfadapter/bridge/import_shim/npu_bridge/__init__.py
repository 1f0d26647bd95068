"""Stands for the adapter of TensorFlow 1.15 on the CPU."""

from jumar.tfadapter.bridge.install import watch_child

watch_child(takes_v1=True)
