"""`Layouts`: which tensors of TensorFlow lie in another order than PyTorch's, and their elements in PyTorch's order.

Images N, H, W, C are read as N, C, H, W; kernels of convolutions H, W, I, O as O, I, H, W; dense kernels (in, out) as
(out, in); the gates of a GRU z, r, h as r, z, h; a flattened image as if its channels came first.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

IMAGES = {3: "NWC", 4: "NHWC", 5: "NDHWC"}
"""By rank."""
KERNEL, DEPTHWISE, DENSE, FLAT, GRU = "HWIO", "HWIM", "IO", "FLAT", "ZRH"

_IMAGE_LAYERS = (
    "Conv", "DepthwiseConv", "SeparableConv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool",
    "UpSampling",
    "ZeroPadding", "Cropping", "SpatialDropout",
)  # fmt: skip
"""How classes of Keras begin that take images and have a `data_format`."""

_IMAGE_OPERATORS = frozenset({
    "Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "MaxPoolV2", "MaxPool3D", "AvgPool", "AvgPool3D",
    "FusedBatchNorm",
    "FusedBatchNormV2", "FusedBatchNormV3", "DepthToSpace", "SpaceToDepth", "LRN", "ResizeBilinear",
    "ResizeNearestNeighbor", "ResizeBicubic", "Conv2DBackpropInput", "Conv2DBackpropFilter", "MaxPoolGrad",
    "AvgPoolGrad",
    "FusedBatchNormGradV3", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter",
})  # fmt: skip
"""Operators whose inputs and outputs of rank 4 or 5 are images, where their data format says so, but for kernels."""
_KERNEL_PLACES = {
    "Conv2D": (1, KERNEL), "Conv3D": (1, KERNEL), "DepthwiseConv2dNative": (1, DEPTHWISE), "Conv2DBackpropInput": (1,
    KERNEL),
    "DepthwiseConv2dNativeBackpropInput": (1, DEPTHWISE),
}  # fmt: skip
_KERNEL_RESULTS = {"Conv2DBackpropFilter": KERNEL, "DepthwiseConv2dNativeBackpropFilter": DEPTHWISE}
_OTHER_ORDER = frozenset({
    "Transpose", "Reshape", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "ExpandDims",
    "Squeeze",
    "GatherV2", "GatherNd", "Pack", "Unpack", "Shape", "SpaceToBatchND", "BatchToSpaceND",
})  # fmt: skip
"""Operators whose result need not lie as their arguments do."""


def rank_of(tensor: Any) -> int:
    """Return the number of dimensions; -1 where it is not known."""
    try:
        return len(tensor.shape)
    except (AttributeError, TypeError, ValueError):
        return -1


def raw_variable(variable: Any) -> Any:
    """Return TensorFlow's own variable of what Keras wraps around one (mixed precision, Keras 3)."""
    inner = getattr(variable, "_variable", variable)
    value = getattr(inner, "_value", None)
    return value if value is not None and hasattr(value, "handle") else inner


class Layouts:
    """Remembers the layout of tensors, and reads them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def begin_step(self) -> None:
        """Forget the tensors that are gone."""
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}

    def tag(self, tensor: Any, layout: str) -> None:
        """Remember a layout of a tensor or variable."""
        one = raw_variable(tensor)
        try:
            self._known[id(one)] = weakref.ref(one), layout
        except TypeError:  # not a tensor
            return

    def of(self, tensor: Any) -> str:
        """Return the layout of a tensor; empty where it is PyTorch's."""
        one = raw_variable(tensor)
        known = self._known.get(id(one))
        return known[1] if known is not None and known[0]() is one else ""

    def array(self, tensor: Any) -> tuple[Any, str]:
        """Return the elements as an array in PyTorch's order, and the layout that the tensor has (empty: the same)."""
        one = raw_variable(tensor)
        array = one if isinstance(one, np.ndarray) else np.asarray(one.numpy())
        layout = self.of(one)
        return (ordered(array, layout), layout.partition(":")[0]) if layout else (array, "")

    def learn_layer(self, layer: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Take in what a layer of Keras says of its tensors."""
        kind = type(layer).__name__
        if _takes_images(layer, kind):
            for tensor in (*inputs, *outputs):
                self._tag_image(tensor, least=3)
        elif kind == "BatchNormalization" and _is_last(layer, inputs):
            for tensor in (*inputs, *outputs):
                self._tag_image(tensor, least=4)
        elif kind == "Flatten" and inputs and outputs and self.of(inputs[0]) in IMAGES.values():
            self._tag_flat(inputs[0], outputs[0])
        elif _is_keras(layer):
            self._pass_on(inputs, outputs)
        self._learn_weights(layer, kind, inputs)

    def learn_operator(
        self, kind: str, attributes: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Take in what an operator says of its tensors."""
        if kind in _IMAGE_OPERATORS:
            given = attributes.get("data_format", b"NHWC")
            text = given.decode() if isinstance(given, bytes) else str(given)
            if not text.endswith("C"):
                return
            place, layout = _KERNEL_PLACES.get(kind, (-1, ""))
            for number, tensor in enumerate(inputs):
                if number == place:
                    self.tag(tensor, layout)
                else:
                    self._tag_image(tensor, least=4)
            for tensor in outputs:
                if kind in _KERNEL_RESULTS:
                    self.tag(tensor, _KERNEL_RESULTS[kind])
                else:
                    self._tag_image(tensor, least=4)
        elif kind == "Reshape" and inputs and outputs:
            if self.of(inputs[0]) in IMAGES.values() and rank_of(outputs[0]) == 2:
                self._tag_flat(inputs[0], outputs[0])
        elif kind not in _OTHER_ORDER:
            self._pass_on(inputs, outputs)

    def _tag_flat(self, image: Any, flat: Any) -> None:
        """Remember that a tensor is an image whose dimensions after the first became one."""
        sizes = [str(size) for size in tuple(image.shape)[1:]]
        last = str(tuple(flat.shape)[-1])
        if all(size.isdigit() for size in [*sizes, last]) and int(np.prod([int(size) for size in sizes])) == int(last):
            self.tag(flat, FLAT + ":" + ",".join(sizes))

    def _pass_on(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Give the results the layout of the arguments where they have as many dimensions."""
        for tensor in inputs:
            layout = self.of(tensor)
            if layout in IMAGES.values() or layout.startswith(FLAT):
                for result in outputs:
                    same = tuple(result.shape) == tuple(tensor.shape) if layout.startswith(FLAT) else True
                    if same and rank_of(result) == rank_of(tensor) and not self.of(result):
                        self.tag(result, layout)
                return

    def _tag_image(self, tensor: Any, least: int) -> None:
        rank = rank_of(tensor)
        if rank >= least and rank in IMAGES and not self.of(tensor):
            self.tag(tensor, IMAGES[rank])

    def _learn_weights(self, layer: Any, kind: str, inputs: Sequence[Any]) -> None:
        kernel = getattr(layer, "kernel", None)
        if kind == "Dense" and kernel is not None:
            flat = self.of(inputs[0]) if inputs else ""
            self.tag(kernel, DENSE + flat[len(FLAT) :] if flat.startswith(FLAT) else DENSE)
        elif "Depthwise" in kind or "Separable" in kind:
            for name, layout in (("depthwise_kernel", DEPTHWISE), ("pointwise_kernel", KERNEL), ("kernel", DEPTHWISE)):
                if getattr(layer, name, None) is not None:
                    self.tag(getattr(layer, name), layout)
        elif kind.startswith("Conv") and kernel is not None:
            self.tag(kernel, KERNEL)
        elif kind in ("LSTM", "GRU", "SimpleRNN"):
            cell = getattr(layer, "cell", layer)
            for name in ("kernel", "recurrent_kernel", "bias"):
                one = getattr(cell, name, None)
                if one is not None and (kind == "GRU" or name != "bias"):
                    self.tag(one, (GRU + ":" if kind == "GRU" else "") + (DENSE if name != "bias" else "B"))


def ordered(array: Any, layout: str) -> Any:
    """Return an array of a layout in PyTorch's order; itself where its shape is not one of the layout's."""
    name, _, sizes = layout.partition(":")
    rank = array.ndim
    if name in IMAGES.values() and rank == len(name):
        return np.moveaxis(array, -1, 1)
    if name == KERNEL and rank >= 3:
        return np.transpose(array, (rank - 1, rank - 2, *tuple(range(rank - 2))))
    if name == DEPTHWISE and rank >= 3:
        moved = np.transpose(array, (rank - 2, rank - 1, *tuple(range(rank - 2))))
        return moved.reshape((-1, 1, *moved.shape[2:]))
    if name in (DENSE, FLAT) and rank == 2:
        return _dense(array, name, sizes)
    if name == GRU:
        parts = np.split(array, 3, axis=-1) if array.shape[-1] % 3 == 0 else [array]
        changed = np.concatenate([parts[1], parts[0], *parts[2:]], axis=-1) if len(parts) == 3 else array
        return changed.T if sizes == DENSE and rank == 2 else changed
    return array


def _dense(array: Any, name: str, sizes: str) -> Any:
    if sizes:
        dims = [int(size) for size in sizes.split(",")]
        side = 0 if name == DENSE else 1
        if int(np.prod(dims)) == array.shape[side]:
            if side == 0:
                array = np.moveaxis(array.reshape([*dims, array.shape[1]]), len(dims) - 1, 0).reshape(array.shape)
            else:
                array = np.moveaxis(array.reshape([array.shape[0], *dims]), -1, 1).reshape(array.shape)
    return array.T if name == DENSE else array


def _takes_images(layer: Any, kind: str) -> bool:
    return kind.startswith(_IMAGE_LAYERS) and getattr(layer, "data_format", "") == "channels_last"


def _is_last(layer: Any, inputs: Sequence[Any]) -> bool:
    axis = getattr(layer, "axis", -1)
    axis = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
    return bool(inputs) and axis in (-1, rank_of(inputs[0]) - 1)


_PASSES = frozenset({
    "Activation", "ReLU", "LeakyReLU", "ELU", "PReLU", "Dropout", "GaussianNoise", "Add", "Subtract", "Multiply",
    "Average",
    "Maximum", "Minimum", "Concatenate", "Softmax", "LayerNormalization", "GroupNormalization", "Rescaling", "Identity",
})  # fmt: skip


def _is_keras(layer: Any) -> bool:
    """Tell whether a layer gives what lies as what it was given."""
    return type(layer).__name__ in _PASSES and type(layer).__module__.startswith(("keras", "tf_keras", "tensorflow"))
