"""What a frozen model is loaded and computed under, whatever its caller has set: no autocast, the CPU, float32.

Engines make memory by PyTorch's functions: on a default device other than the CPU they would be handed addresses that
are none of the CPU's. What computes in the default dtype (`x / 2` of integers) was frozen under float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_is_any_autocast_enabled = torch._C._is_any_autocast_enabled  # half as long in each call as to ask for one device
_num_function_modes = torch._C._len_torch_function_stack  # a default device is such a mode


def are_usual() -> bool:
    """Tell whether there is neither autocast nor a default device, nor anything else that shows as one."""
    return not (_is_any_autocast_enabled() or _num_function_modes())


@contextmanager
def usual(*, dtype: bool) -> Iterator[None]:
    """Compute without autocast and on the CPU while this is entered, and with `dtype` in float32 by default.

    PyTorch has one default dtype for all threads.
    """
    with ExitStack() as stack:
        if torch.is_autocast_enabled("cpu"):
            stack.enter_context(torch.autocast("cpu", enabled=False))
        if _num_function_modes():
            stack.enter_context(torch.device("cpu"))
        default = torch.get_default_dtype()
        if dtype and default is not torch.float32:
            stack.callback(torch.set_default_dtype, default)
            torch.set_default_dtype(torch.float32)
        yield
