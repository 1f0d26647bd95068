"""Features of CUDA that no CPU kernel can replace: using one raises an error that says what to do."""

from __future__ import annotations

from typing import Any, NoReturn, Union

import torch

from jumar.device.cuda_stand_in.names import presented_as

_REFUSED = {
    "cudart": "take the call out, or guard it, for this run",
    "jiterator": "write the operator with PyTorch operators",
    "tunable": "take TunableOp out for this run",
    "gds": "read the file with torch.load or numpy",
    "CUDAGraph": "run the captured code directly, for example behind an option of the script",
    "graph": "run the captured code directly, for example behind an option of the script",
    "graph_pool_handle": "run the captured code directly, for example behind an option of the script",
    "make_graphed_callables": "call the module itself, for example behind an option of the script",
    "CUDAPluggableAllocator": "use PyTorch's own allocator for this run",
    "change_current_allocator": "use PyTorch's own allocator for this run",
    "MemPool": "use PyTorch's own allocator for this run",
    "use_mem_pool": "use PyTorch's own allocator for this run",
    "caching_allocator_alloc": "allocate with torch.empty",
    "caching_allocator_delete": "allocate with torch.empty",
    "ExternalStream": "use torch.cuda.Stream",
    "get_stream_from_external": "use torch.cuda.Stream",
    "GreenContext": "use torch.cuda.Stream",
    "current_blas_handle": "use PyTorch operators in place of direct cuBLAS calls",
    "current_solver_handle": "use PyTorch operators in place of direct cuSOLVER calls",
}
"""Names of torch.cuda that are refused, with what to do instead."""


def refuse(name: str, instead: str) -> NoReturn:
    """Raise NotImplementedError for a CUDA feature that has no counterpart on the CPU."""
    raise NotImplementedError(
        f"{name} needs a real CUDA device, and this run has CPU kernels standing in for one; {instead}, "
        "or run the reference on a machine with a GPU."
    )


class Refused:
    """Stands where a name of torch.cuda was; using it in any way is refused, naming it is not."""

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse."""
        refuse(self._name, self._instead)

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("_"):  # what inspects objects asks for such names
            raise AttributeError(attribute)
        refuse(f"{self._name}.{attribute}", self._instead)

    def __or__(self, other: Any) -> Any:
        """Return the union of an annotation, `torch.cuda.CUDAGraph | None`, which libraries make at their import."""
        return Union[self, other]  # noqa: UP007 - it is this very operator

    def __ror__(self, other: Any) -> Any:
        """Return the union with the name on the right."""
        return Union[other, self]  # noqa: UP007 - the same

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Let a class be derived from the name; making an instance of it is refused."""
        return (type("Refused", (), {"__init__": self.__call__}),)

    def __instancecheck__(self, value: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}: not available on the CUDA stand-in>"


def install() -> None:
    """Put the refusals into torch.cuda."""
    for name, instead in _REFUSED.items():
        if hasattr(torch.cuda, name):
            refused = Refused(f"torch.cuda.{name}", instead)
            setattr(torch.cuda, name, presented_as(refused, getattr(torch.cuda, name)))
