"""`Description`: an operator as AscendCL prints it behind `OpType: ` (AclOp::DebugString), taken apart.

A log line ends after about 1,000 characters: what comes later is not known, and `is_cut` says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DTYPES = {
    -1: "undefined", 0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16",
    8: "uint32", 9: "int64", 10: "uint64", 11: "float64", 12: "bool", 13: "string", 16: "complex64",
    17: "complex128", 27: "bfloat16", 29: "int4", 30: "uint1", 33: "complex32",
}  # fmt: skip
"""Numbers of `aclDataType`."""
FORMATS = {
    -1: "UNDEFINED", 0: "NCHW", 1: "NHWC", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 12: "NC1HWC0_C04", 16: "HWCN",
    27: "NDHWC", 29: "FRACTAL_NZ", 30: "NCDHW", 32: "NDC1HWC0", 33: "FRACTAL_Z_3D", 35: "NC", 47: "NCL",
    50: "FRACTAL_NZ_C0_16", 51: "FRACTAL_NZ_C0_32", 52: "FRACTAL_NZ_C0_2", 53: "FRACTAL_NZ_C0_4", 54: "FRACTAL_NZ_C0_8",
}  # fmt: skip
"""Numbers of `aclFormat`."""
_TENSOR = re.compile(r"(Input|Output)Desc\[(\d+)\]: ")
_FIELD = re.compile(r"(\w+) = (.*?)(?=\s*,\s*\w[\w ]* = |\s*$)")
_ATTRIBUTES = re.compile(r"(?:^|[\s,])Attr: ")
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output."""

    name: str
    """`input 0`, `output 1`."""
    dtype: str
    format: str
    """Format in memory (`StorageFormat`) where the line has it, else the format."""
    shape: tuple[int, ...] | None
    """None where the line was cut before it."""

    def __str__(self) -> str:
        shape = "?" if self.shape is None else "x".join(map(str, self.shape)) or "scalar"
        return f"{self.dtype}[{shape}] {self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One operator with its tensors and attributes."""

    type: str
    tensors: tuple[Tensor, ...] = ()
    attributes: str = ""
    is_cut: bool = False

    @property
    def kind(self) -> tuple[object, ...]:
        """All but the shapes: what two calls share that differ in shapes only."""
        return (self.type, self.attributes, *((one.name, one.dtype, one.format) for one in self.tensors))


def parse(text: str) -> Description:
    """Return the operator that stands behind `OpType: ` in a line."""
    type_name, _, rest = text.partition(",")
    found = _ATTRIBUTES.search(rest)
    body, attributes = (rest[: found.start()], rest[found.end() :].strip()) if found else (rest, "")
    heads = list(_TENSOR.finditer(body))
    tensors = []
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(body)
        tensors.append(_tensor(f"{head[1].lower()} {head[2]}", body[head.end() : end]))
    ends = bool(tensors) and tensors[-1].shape is not None and any(one.name.startswith("output") for one in tensors)
    is_cut = not ends or attributes.count("{") > attributes.count("}")
    return Description(type=type_name.strip(), tensors=tuple(tensors), attributes=attributes, is_cut=is_cut)


def _tensor(name: str, text: str) -> Tensor:
    fields = {key: value.strip() for key, value in _FIELD.findall(text)}
    stored = _number(fields.get("StorageFormat"))
    if stored in (None, -1):
        stored = _number(fields.get("Format"))
    return Tensor(
        name=name,
        dtype=_called(DTYPES, _number(fields.get("DataType"))),
        format=_called(FORMATS, stored),
        shape=_shape(fields.get("Shape")),
    )


def _shape(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(int(number) for number in _NUMBER.findall(text))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _called(names: dict[int, str], number: int | None) -> str:
    return "?" if number is None else names.get(number, str(number))
