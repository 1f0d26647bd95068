"""`Plan`: what the emulator must know about an operator to run it, read once from its schema."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from jumar.npu.core.versions.kernels import get_kernel

CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

Call = Callable[..., Any]
"""An operator on CPU tensors: call(CPU_KEYS, *args, **kwargs)."""

LAYERS: list[Callable[[Plan, Call], Call]] = []
"""What the SoC does that a CPU kernel does not (dtype limits, rounding, saturation), innermost first.

Each layer takes a plan and its call and returns the call to use: the same one where it has nothing to do,
so that operators it does not touch pay nothing. Layers are asked when an operator is first called after
`reset`. Operators of the form `view` get npu tensors, all others CPU tensors over npu memory.
"""

PLANS: dict[str, Plan] = {}
"""Plans of all operators that have a kernel of their own."""

Form = Literal["fresh", "inplace", "out", "view", "mixed"]
"""fresh: only new results; inplace: returns what it wrote; out: writes keyword arguments; view: shares memory."""

_TENSOR = {"Tensor", "Optional[Tensor]"}
_INDICES = "List[Optional[Tensor]]"
_TENSOR_LIST = {"List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]"}

CPU_ARGUMENTS: dict[str, frozenset[str]] = {
    "copy_": frozenset({"self", "src"}),
    "_copy_from": frozenset({"self", "dst"}),
    "_copy_from_and_resize": frozenset({"self", "dst"}),
    "_foreach_copy_": frozenset({"self", "src"}),
    "_foreach_addcdiv": frozenset({"scalars"}),
    "_foreach_addcdiv_": frozenset({"scalars"}),
    "_foreach_addcmul": frozenset({"scalars"}),
    "_foreach_addcmul_": frozenset({"scalars"}),
    "_ctc_loss": frozenset({"input_lengths", "target_lengths"}),
    "_ctc_loss_backward": frozenset({"input_lengths", "target_lengths"}),
}
"""Arguments that may be on the CPU beside npu tensors, as on CUDA, by operator without overload; indices may too."""


class Plan:
    """How to run one operator overload: where its tensors are and what it gives back."""

    __slots__ = (
        "call",
        "composed",
        "cpu_ok",
        "device_at",
        "form",
        "general",
        "generator_at",
        "kernel",
        "keywords",
        "lists",
        "name",
        "names",
        "results",
        "sees_conj",
        "single",
        "zero_dim_ok",
    )

    def __init__(self, name: str) -> None:
        base, _, overload = name.partition(".")
        schema = torch._C._get_schema(base, overload)
        self.name = name
        self.call: Call = functools.partial(_resolve, self)
        """Runs the operator on CPU tensors: call(CPU_KEYS, *args, **kwargs)."""
        self.kernel: Call | None = None
        """What to run in place of PyTorch's CPU kernel: an operator that the CPU does not have."""
        self.composed = not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
        """Whether PyTorch composes the operator of others on every device."""
        self.general: Callable[..., Any] = functools.partial(_not_made, self)
        """The kernel's general form: general(args, kwargs, index)."""
        types = [str(argument.type) for argument in schema.arguments]
        self.names = tuple(argument.name for argument in schema.arguments)
        positional = [i for i, argument in enumerate(schema.arguments) if not argument.kwarg_only]
        self.single = tuple(i for i in positional if types[i] in _TENSOR)
        self.lists = tuple(i for i in positional if types[i] in _TENSOR_LIST)
        self.keywords = frozenset(
            argument.name
            for i, argument in enumerate(schema.arguments)
            if argument.kwarg_only and types[i] in _TENSOR | _TENSOR_LIST
        )
        self.device_at = next((i for i, kind in enumerate(types) if "Device" in kind), None)
        self.generator_at = next((i for i, kind in enumerate(types) if "Generator" in kind), None)
        self.zero_dim_ok = name.removeprefix("aten::") in _lenient()
        allowed = CPU_ARGUMENTS.get(base.removeprefix("aten::"), frozenset())
        self.cpu_ok = frozenset(
            i for i, argument in enumerate(self.names) if argument in allowed or types[i] == _INDICES
        )
        falls_through = torch._C._dispatch_kernel_for_dispatch_key_is_fallthrough
        self.sees_conj = any(
            torch._C._dispatch_has_kernel_for_dispatch_key(name, key) and falls_through(name, key)
            for key in ("Conjugate", "Negative")
        )
        self.results = tuple(_result(item, schema.arguments) for item in schema.returns)
        self.form: Form = _form(schema, self.results)

    def __repr__(self) -> str:
        return f"Plan({self.name}, {self.form})"


def _result(item: Any, arguments: Any) -> int | None:
    """Return the position of the argument that this result aliases, or None for a new value.

    A list of views has the alias sets in its elements, which Python does not see. The argument that it shows is the
    one whose elements may become those of a list (`Tensor(a -> *)`).
    """
    if item.alias_info is None:
        return None
    if str(item.type).startswith("List"):
        return next((i for i, argument in enumerate(arguments) if _becomes_list(argument)), None)
    if not item.alias_info.before_set:
        return None
    wanted = item.alias_info.before_set
    for position, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & wanted:
            return position
    return None


def _becomes_list(argument: Any) -> bool:
    found = argument.alias_info
    return found is not None and not found.is_write and "*" in found.after_set


def _form(schema: Any, results: tuple[int | None, ...]) -> Form:
    written = [argument for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    if written:
        if any(argument.kwarg_only for argument in written):
            return "out"
        return "inplace" if all(position is not None for position in results) else "mixed"
    return "view" if any(position is not None for position in results) else "fresh"


def _not_made(plan: Plan, *_: Any) -> Any:
    raise NotImplementedError(f"{plan.name} has no kernel on the emulated NPU")


def _resolve(plan: Plan, *args: Any, **kwargs: Any) -> Any:
    """First call: find the CPU kernel and put the layers around it; later calls then use that directly."""
    call: Call = plan.kernel or get_kernel(plan.name, "CPU").call_boxed
    for layer in LAYERS:
        call = layer(plan, call)
    plan.call = call
    return call(*args, **kwargs)


def reset() -> None:
    """Have every operator ask the layers again: called when what they depend on has changed."""
    for plan in PLANS.values():
        plan.call = functools.partial(_resolve, plan)


@functools.cache
def _functions() -> dict[str, str]:
    """Return each aten function's block of PyTorch's `native_functions.yaml`, which torchgen ships."""
    import torchgen  # type: ignore[import-untyped,unused-ignore]

    file = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=- func: )", file.read_text(encoding="utf-8")):
        match = re.match(r"- func: ([\w.]+)\(", block)
        if match:
            found[match[1]] = block
    return found


@functools.cache
def _lenient() -> frozenset[str]:
    """Operators whose generated wrapper makes no device check: they take 0-dim CPU tensors on CUDA."""
    return frozenset(name for name, block in _functions().items() if "device_check: NoCheck" in block) | frozenset(
        name
        for name, block in _functions().items()
        if (match := re.search(r"structured_delegate: ([\w.]+)", block))
        and "device_check: NoCheck" in _functions().get(match[1], "")
    )


def is_structured(name: str) -> bool:
    """Return whether PyTorch generates this aten function (no `aten::` prefix) from a structured kernel."""
    return "structured" in _functions().get(name, "")
