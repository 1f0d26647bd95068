"""Optimizers and layer norms of NVIDIA's apex, computed by PyTorch's own operators instead of CUDA kernels."""

from __future__ import annotations

from typing import Any

from jumar.npu.api.alias import apex_finder


def install() -> None:
    """Let `import apex` resolve, with PyTorch's classes in the places of CUDA kernels."""
    if not apex_finder.install():
        return
    from jumar.amp.apex import normalization as layers
    from jumar.amp.apex.nvidia import FusedAdam, FusedSGD
    from jumar.npu.api.apex import normalization, optimizers

    replaced: list[tuple[Any, dict[str, Any]]] = [
        (optimizers, {"FusedAdam": FusedAdam, "FusedSGD": FusedSGD}),
        (normalization, {name: getattr(layers, name) for name in layers.__all__}),
    ]
    for module, classes in replaced:
        for name, found in classes.items():
            setattr(module, name, found)
