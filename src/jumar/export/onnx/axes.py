"""`OpenAxes`: which axes of the inputs stay open, and inputs of other sizes to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from jumar.base.errors import UsageError
from jumar.base.text import listing
from jumar.export.onnx.factory import Built
from jumar.export.onnx.options import OnnxOptions

Axes = Mapping[str, Mapping[int, str]]
"""Input -> axis (from 0) -> name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Inputs of certain sizes."""

    sizes: Mapping[str, int]
    """Name of an axis -> its size."""
    tensors: tuple[torch.Tensor, ...]

    def __str__(self) -> str:
        """`batch=3, length=7`."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


def open_axes(built: Built, options: OnnxOptions) -> Axes:
    """Return the axes that the options leave open. Raises UsageError for an input or axis that there is not."""
    shapes = {name: tuple(tensor.shape) for name, tensor in zip(built.names, built.tensors, strict=True)}
    found: dict[str, dict[int, str]] = {}
    for name, axes in options.dynamic.items():
        if name not in shapes:
            raise UsageError(f"--dynamic names the input {name!r}, and the inputs are {listing(shapes, 12)}.")
        for axis, label in axes.items():
            rank = len(shapes[name])
            if not -rank <= axis < rank:
                raise UsageError(f"--dynamic names axis {axis} of {name}, which has {rank} axes: {shapes[name]}.")
            found.setdefault(name, {})[axis % rank] = label
    if options.dynamic_batch:
        for name, shape in shapes.items():
            if shape:
                found.setdefault(name, {}).setdefault(0, "batch")
    _check_sizes(found, shapes)
    return found


def _check_sizes(axes: Axes, shapes: Mapping[str, tuple[int, ...]]) -> None:
    sizes: dict[str, tuple[int, str]] = {}
    for name, own in axes.items():
        for axis, label in own.items():
            size = shapes[name][axis]
            known, where = sizes.setdefault(label, (size, name))
            if known != size:
                raise UsageError(
                    f"the axis {label!r} has the size {known} in {where} and {size} in {name}; one name is one "
                    "size, so name them apart with --dynamic INPUT:AXIS=NAME."
                )


def sizes_of(built: Built, axes: Axes) -> dict[str, int]:
    """Return the size that each open axis has in the example inputs."""
    shapes = dict(zip(built.names, (tensor.shape for tensor in built.tensors), strict=True))
    return {label: shapes[name][axis] for name, own in axes.items() for axis, label in own.items()}


def trials(built: Built, axes: Axes) -> Iterator[tuple[Trial, ...]]:
    """Yield groups of trials. Of a group the first that PyTorch takes counts: one name alone, then all of them."""
    sizes = sizes_of(built, axes)
    groups = [[name] for name in sizes] + ([list(sizes)] if len(sizes) > 1 else [])
    for names in groups:
        rows = zip(*(_changes(sizes[name]) for name in names), strict=True)
        yield tuple(resized(built, axes, {**sizes, **dict(zip(names, row, strict=True))}) for row in rows)


def _changes(size: int) -> tuple[int, ...]:
    """Return other sizes, in the order in which they are tried: many models want an even one or a multiple."""
    return size + 1, size * 2, size + 2, max(size // 2, 1)


def resized(built: Built, axes: Axes, sizes: Mapping[str, int]) -> Trial:
    """Return the example inputs with open axes of other sizes: repeated in turn, and floating values made smaller.

    Whole numbers stay among those of the example, because they may be indices.
    """
    pairs = zip(built.names, built.tensors, strict=True)
    return Trial(sizes=sizes, tensors=tuple(_resized(tensor, axes.get(name, {}), sizes) for name, tensor in pairs))


def _resized(tensor: torch.Tensor, axes: Mapping[int, str], sizes: Mapping[str, int]) -> torch.Tensor:
    for axis, label in axes.items():
        old, new = tensor.shape[axis], sizes[label]
        if old in (0, new):
            tensor = (
                tensor if old else tensor.new_zeros([new if at == axis else n for at, n in enumerate(tensor.shape)])
            )
            continue
        tensor = tensor.index_select(axis, torch.arange(new) % old)
        if tensor.is_floating_point():  # copies of one row would hide a file that always reads the first
            scale = torch.linspace(1.0, 0.5, new, dtype=tensor.dtype)
            tensor = tensor * scale.reshape([-1 if at == axis else 1 for at in range(tensor.dim())])
    return tensor


def widened(built: Built, axes: Axes) -> Sequence[torch.Tensor]:
    """Return example inputs in which no open axis has the size 0 or 1, where the model takes them.

    `torch.export` may take a size of 1 for a constant.
    """
    sizes = sizes_of(built, axes)
    if all(size > 1 for size in sizes.values()):
        return built.tensors
    wide = resized(built, axes, {name: max(size, 2) for name, size in sizes.items()}).tensors
    try:
        built.run(wide)
    except Exception:  # noqa: BLE001 - whatever the model raises, its own inputs are right
        return built.tensors
    return wide
