"""Collectives of one process."""

from jumar.tfadapter.bridge.operators import hccl_ops


def __getattr__(name):
    return getattr(hccl_ops, name)
