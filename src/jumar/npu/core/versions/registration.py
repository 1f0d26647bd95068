"""`register_backend`: name, module, hooks and device guard of a back end, as each version of PyTorch takes them."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.backend_registration

from jumar.npu.core.versions.native_part import extension


def takes_python_backends() -> bool:
    """Return whether this PyTorch lets a back end be written in Python: from 2.10 on."""
    return hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend")


def register_backend(name: str, module: Any) -> None:
    """Give PyTorch's free device type this name and module, a guard that knows index 0, and hooks.

    Raises DeviceError where an extension must be compiled for it and cannot.
    """
    if takes_python_backends():
        setup = torch.utils.backend_registration._setup_privateuseone_for_python_backend
        setup(name, module, *_hooks_and_guard())
        return
    native = extension()
    pytorch: Any = torch
    pytorch.utils.rename_privateuse1_backend(name)
    pytorch.utils.generate_methods_for_privateuse1_backend()
    pytorch._register_device_module(name, module)
    native.set_up()


def _hooks_and_guard() -> tuple[Any, Any]:
    acc = torch._C._acc

    class Hooks(acc.PrivateUse1Hooks):
        def is_available(self) -> bool:
            return True

        def has_primary_context(self, index: int) -> bool:
            return True

        def is_built(self) -> bool:
            return True

    class Guard(acc.DeviceGuard):
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.PrivateUse1

    return Hooks(), Guard()
