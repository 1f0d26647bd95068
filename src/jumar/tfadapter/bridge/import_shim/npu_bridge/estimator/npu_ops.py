"""Operators of the adapter."""

from jumar.tfadapter.bridge.operators import npu_ops


def __getattr__(name):
    return getattr(npu_ops, name)
