"""Matrix products, convolutions and attention in a timeline, and the dtypes they work on."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import numpy.typing as npt

from jumar.advise.timing.profile import Mask, Profile
from jumar.operators import has, short_name
from jumar.timeline.model.events import Kind

_WORDS = {
    "float": "float32", "float32": "float32", "dt_float": "float32", "double": "float64", "float64": "float64",
    "dt_double": "float64", "c10::half": "float16", "half": "float16", "float16": "float16", "dt_float16": "float16",
    "c10::bfloat16": "bfloat16", "bfloat16": "bfloat16", "dt_bf16": "bfloat16",
}  # fmt: skip
"""How the formats spell the dtypes of floating point, in lower case."""


@cache
def is_product(name: str) -> bool:
    """Tell whether an operator or a kernel multiplies matrices: by Jumar's vocabulary, or by the vendor's words."""
    if "::" in name:
        return has(name, "product")
    low = name.lower()
    return any(word in low for word in ("matmul", "gemm", "conv2d", "conv3d", "flashattention", "batchmatmul"))


def products(profile: Profile, kind: Kind) -> Mask:
    """Return the mask of the products in the judged steps, among the operators of the host or the device's kernels."""
    timeline = profile.timeline
    mask = timeline.named(is_product) & timeline.of(kind)
    inside = np.zeros(len(mask), bool)
    inside[profile.inside(mask)] = True
    return inside


def floats(profile: Profile, positions: npt.NDArray[np.int64]) -> list[frozenset[str]]:
    """Return the dtypes of floating point among the inputs of each event; empty where they are not recorded."""
    found = []
    for position in positions:
        detail = profile.timeline.detail_of(int(position))
        found.append(_floats(detail.dtypes, detail.shapes) if detail is not None else frozenset())
    return found


@cache
def _floats(dtypes: str, shapes: str) -> frozenset[str]:
    """Return the dtypes of floating point of the inputs that have dimensions; a Python number is a float64 without."""
    words, sizes = _items(dtypes), _items(shapes)
    sized = len(words) == len(sizes)
    kept = [word for i, word in enumerate(words) if not sized or sizes[i] not in ([], "[]", "")]
    return frozenset(found for word in kept if (found := _WORDS.get(str(word).strip().lower())))


def _items(text: str) -> list[object]:
    try:
        found = json.loads(text)
    except ValueError:
        return list(text.replace(";", ",").split(",")) if "," not in text else list(text.split(";"))
    return found if isinstance(found, list) else [found]


@cache
def base(name: str) -> str:
    """Return `add` for `aten::add_` and `aten::add.Tensor`."""
    return short_name(name)
