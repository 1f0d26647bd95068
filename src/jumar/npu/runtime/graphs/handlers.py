"""Which arguments of a recorded operator may be exchanged before a replay: `NPUGraph.update`, `NpuGraphOpHandler`.

A handler is a class, never an instance; the functions are those that the vendor's graphs call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal

import torch

__all__ = ["NpuGraphOpHandler", "register_npu_graph_handler"]

Spec = tuple[Literal["arg", "kwarg"], Any, str]
"""Where a value goes, the position or the name there, and the key it is given under."""

_log = logging.getLogger("torch_npu.npugraph")


class NpuGraphOpHandler:
    """Base of handlers: declare `UPDATE_SPECS`, and register the class for the names of operators."""

    UPDATE_SPECS: ClassVar[Mapping[str, Sequence[Spec]]] = {}

    @classmethod
    def get_update_specs(cls, op_name: str) -> Sequence[Spec]:
        """Return what may be exchanged in this operator (`my_op.default`)."""
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def prepare_capture(cls, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the operator and arguments to record in place of these: the same ones."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: Any) -> Any:  # noqa: ARG003 (for those who override it)
        """Return what the caller of a recorded operator gets: its result."""
        return result

    @classmethod
    def record_wrap_kwarg(cls, key: str, value: Any, tensor_param_names: Sequence[str]) -> Any:
        """Return a keyword's value as a record keeps it: tensors on the npu themselves, all else copied."""
        if isinstance(value, (list, tuple)):
            return type(value)(cls.record_wrap_kwarg(key, item, tensor_param_names) for item in value)
        is_on_npu = isinstance(value, torch.Tensor) and value.device.type == "npu"
        return value if is_on_npu else deepcopy(value)

    @classmethod
    def update_args(cls, dispatch_record: Any, update_input: Mapping[str, Any]) -> None:
        """Put the values of an update into a record (`op_cache_entry`, `args`, `kwargs`)."""
        for where, at, key in cls.get_update_specs(dispatch_record.op_cache_entry.__name__):
            if key not in update_input:
                continue
            if where == "kwarg":
                dispatch_record.kwargs[at] = update_input[key]
            elif len(dispatch_record.args) > at:
                dispatch_record.args[at] = update_input[key]


HANDLERS: dict[str, type[NpuGraphOpHandler]] = {}
"""Operator (`my_op.default`) -> its handler."""


def register_npu_graph_handler(op_names: str | Sequence[str]) -> Callable[[Any], Any]:
    """Return a class decorator that registers a handler for operators, by the names of their overloads."""

    def decorate(cls: type[NpuGraphOpHandler]) -> type[NpuGraphOpHandler]:
        for name in [op_names] if isinstance(op_names, str) else op_names:
            if name in HANDLERS:
                _log.warning("the handler of %s is replaced: %s by %s", name, HANDLERS[name].__name__, cls.__name__)
            HANDLERS[name] = cls
        return cls

    return decorate


_LENGTHS = {
    "npu_fused_infer_attention_score": ("actual_seq_lengths", "actual_seq_lengths_kv"),
    "npu_fused_infer_attention_score_v2": ("actual_seq_qlen", "actual_seq_kvlen"),
    "npu_fusion_attention_v3": ("actual_seq_qlen", "actual_seq_kvlen"),
    "npu_fusion_attention_grad_v3": ("actual_seq_qlen", "actual_seq_kvlen"),
    "_npu_paged_attention": ("context_lens",),
    "npu_multi_head_latent_attention": ("context_lens",),
}
"""Attention operators whose lengths the vendor's own handlers exchange."""


@register_npu_graph_handler([f"{name}.{overload}" for name in _LENGTHS for overload in ("default", "out")])
class _Lengths(NpuGraphOpHandler):
    """Finds the lengths by name in the operator's schema."""

    @classmethod
    def get_update_specs(cls, op_name: str) -> Sequence[Spec]:
        base, _, overload = op_name.partition(".")
        schema = getattr(getattr(torch.ops.npu, base), overload)._schema
        positions = {argument.name: at for at, argument in enumerate(schema.arguments) if not argument.kwarg_only}
        keys = _LENGTHS[base]
        return [("arg", positions[key], key) if key in positions else ("kwarg", key, key) for key in keys]
