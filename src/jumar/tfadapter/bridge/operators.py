"""Operators of the adapter by those of TensorFlow, and collectives of one process."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.rounding import keep_dtype_scope, set_device_sat_mode
from jumar.tfadapter.bridge.state import STATE

v1 = tf.compat.v1
ONE_PROCESS = "collectives (HCCL): this run is one process of one"


class npu_ops:
    """`npu_bridge.estimator.npu_ops`."""

    @staticmethod
    def initialize_system(*_: Any, **__: Any) -> Any:
        """Do nothing: there is no device to set up."""
        return tf.no_op()

    @staticmethod
    def shutdown_system(*_: Any, **__: Any) -> Any:
        """Do nothing."""
        return tf.no_op()

    @staticmethod
    def dropout(x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None) -> Any:
        """Return TensorFlow's dropout: the same law, other random numbers than on a chip."""
        STATE.not_shown["dropout: a chip draws other random numbers"] = None
        return v1.nn.dropout(x, keep_prob=keep_prob, noise_shape=noise_shape, seed=seed, name=name)


class npu_unary_ops:
    """`npu_bridge.estimator.npu_unary_ops`."""

    @staticmethod
    def gelu(x: Any) -> Any:
        """Return GELU by the approximation with tanh."""
        return tf.compat.v2.nn.gelu(x, approximate=True)


class npu_scope:
    """`npu_bridge.estimator.npu.npu_scope`."""

    keep_dtype_scope = staticmethod(keep_dtype_scope)


class npu_plugin:
    """`npu_bridge.estimator.npu.npu_plugin`."""

    set_device_sat_mode = staticmethod(set_device_sat_mode)


class hccl_ops:
    """`npu_bridge.hccl.hccl_ops` for one process."""

    @staticmethod
    def allreduce(
        tensor: Any, reduction: str, fusion: int = 1, fusion_id: int = -1, group: str = "hccl_world_group"
    ) -> Any:
        """Return the tensor."""
        if reduction not in ("sum", "prod", "max", "min"):
            raise ValueError(f"reduction must be sum, prod, max or min; got {reduction!r}.")
        del fusion, fusion_id, group
        return _alone(tensor)

    @staticmethod
    def allgather(tensor: Any, rank_size: int, group: str = "hccl_world_group") -> Any:
        """Return the tensor."""
        del rank_size, group
        return _alone(tensor)

    @staticmethod
    def reduce_scatter(tensor: Any, reduction: str, rank_size: int, group: str = "hccl_world_group") -> Any:
        """Return the tensor."""
        del reduction, rank_size, group
        return _alone(tensor)

    @staticmethod
    def broadcast(
        tensor: Any, root_rank: int, fusion: int = 2, fusion_id: int = 0, group: str = "hccl_world_group"
    ) -> Any:
        """Return the tensors of the list."""
        del root_rank, fusion, fusion_id, group
        return [_alone(one) for one in tensor] if isinstance(tensor, (list, tuple)) else _alone(tensor)


def _alone(tensor: Any) -> Any:
    STATE.not_shown[ONE_PROCESS] = None
    return tf.identity(tensor)


def get_rank_id(group: str = "hccl_world_group") -> int:
    """Return RANK_ID of the environment, else 0."""
    del group
    return int(os.environ.get("RANK_ID", "0"))


def get_rank_size(group: str = "hccl_world_group") -> int:
    """Return RANK_SIZE of the environment, else 1."""
    del group
    return int(os.environ.get("RANK_SIZE", "1"))


def get_local_rank_id(group: str = "hccl_world_group") -> int:
    """Return the rank within the machine: this process is the only one."""
    del group
    return 0


def get_local_rank_size(group: str = "hccl_world_group") -> int:
    """Return the processes of the machine: one."""
    del group
    return 1


def set_split_strategy_by_idx(idx_list: list[int], group: str = "hccl_world_group") -> None:
    """Check the list; the split has no effect here. Raises ValueError for one that does not grow."""
    if sorted(set(idx_list)) != list(idx_list):
        raise ValueError(
            f"idx_list must be growing numbers of gradients; got {idx_list}. Give for example [20, 100, 159]."
        )
    del group
    STATE.no_effect[f"set_split_strategy_by_idx({idx_list})"] = None


def set_split_strategy_by_size(data_size_list: list[float], group: str = "hccl_world_group") -> None:
    """Check the list; the split has no effect here. Raises ValueError unless the shares add up to 100."""
    if abs(sum(data_size_list) - 100) > 1e-6:
        raise ValueError(f"data_size_list must add up to 100; got {data_size_list}. Give for example [60, 20, 20].")
    del group
    STATE.no_effect[f"set_split_strategy_by_size({data_size_list})"] = None


def create_group(group: str, rank_num: int, rank_ids: list[int]) -> None:
    """Note a group; it has no effect here."""
    STATE.no_effect[f"create_group({group!r}, {rank_num}, {rank_ids})"] = None


def destroy_group(group: str) -> None:
    """Do nothing."""
    del group
