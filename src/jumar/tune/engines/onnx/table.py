"""The table of operators that are written as ONNX, filled by the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Converter = Callable[..., "str | list[str]"]
"""Called with the draft and the operator's arguments by their names in its schema, tensors as `Value`s.

Returns the names of the outputs. What a converter gives need not have the right dtype: it is cast. Raises TuneError
for arguments that it cannot write.
"""

TABLE: dict[str, Converter] = {}
"""By base name (`add`), or name with overload (`max.dim`), which goes first."""


def operator(*names: str) -> Callable[[Converter], Converter]:
    """Enter a converter into the table."""

    def enter(converter: Converter) -> Converter:
        for name in names:
            TABLE[name] = converter
        return converter

    return enter


def converter_of(name: str) -> Converter | None:
    """Return the converter of `aten::add.Tensor`; None when there is none."""
    namespace, _, rest = name.rpartition("::")
    if namespace not in {"", "aten"}:
        return None
    return TABLE.get(rest) or TABLE.get(rest.partition(".")[0])


def unary(kind: str, **attributes: Any) -> Converter:
    """Return a converter for one ONNX operator of one floating-point input."""

    def convert(draft: Any, self: Any) -> str:
        name: str = draft.add(kind, draft.cast(self, draft.out[0].dtype), **attributes)
        return name

    return convert
