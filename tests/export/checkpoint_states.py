"""State dicts that hypothesis makes: every dtype, 0-dim, empty, tied and strided tensors."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip
COMMON = [dtype for dtype in DTYPES if (dtype.itemsize > 1 and not dtype.is_complex) or dtype in DTYPES[9:11]]
"""Dtypes that every format has, without bool, whose bytes are 0 and 1."""
NAMES = st.lists(st.sampled_from(["fc", "0", "weight", "a-b", "größe", "x y", "$d", "bn"]), min_size=1, max_size=4)
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def tensors(draw, dtypes=tuple(DTYPES), shapes=SHAPES) -> torch.Tensor:
    """Draw a tensor of random bits, perhaps not contiguous."""
    dtype, shape = draw(st.sampled_from(list(dtypes))), draw(shapes)
    number = torch.Size(shape).numel() * dtype.itemsize
    content = draw(st.binary(min_size=number, max_size=number))
    if dtype is torch.bool:
        content = bytes(byte & 1 for byte in content)
    if not content:
        return torch.empty(shape, dtype=dtype)
    tensor = torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)
    if draw(st.booleans()) and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return tensor


@st.composite
def states(draw, dtypes=tuple(DTYPES), shapes=SHAPES, separators=(".",)) -> dict[str, torch.Tensor]:
    """Draw a state dict; some of its tensors are tied."""
    between = draw(st.sampled_from(separators))
    names = draw(st.lists(NAMES.map(between.join), min_size=1, max_size=5, unique=True))
    state = {name: draw(tensors(dtypes, shapes)) for name in names}
    if draw(st.booleans()):
        state[f"tied{between}weight"] = state[names[0]]
    return state
