"""The schemas of the vendor's custom operators, from the packaged table."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch

NAMESPACE = "npu"
"""The library the operators are in: `torch.ops.npu`."""

_WRITTEN = {"=Mean": "=1", "Dimname ": "str "}
"""What the vendor's yaml names and a schema writes otherwise: at::Reduction's number, names of dimensions."""


@dataclass(frozen=True)
class Schema:
    """One overload as the vendor declares it."""

    name: str
    """`npu_rms_norm`, `npu_slice.out`."""
    text: str
    """As `torch.library.Library.define` takes it."""
    namespace: str = NAMESPACE
    """The library that the operator is in."""

    @property
    def base(self) -> str:
        """The name without its overload."""
        return self.name.partition(".")[0]

    @property
    def qualified(self) -> str:
        """The name with its library, as the dispatcher knows it."""
        return f"{self.namespace}::{self.name}"

    @property
    def backward(self) -> str:
        """The name of its backward operator, in the library of all backward operators."""
        return self.name if self.namespace == NAMESPACE else f"{self.namespace}_{self.name}"

    @functools.cached_property
    def parsed(self) -> torch.FunctionSchema:
        """The schema as PyTorch reads it."""
        return torch._C.parse_schema(f"{self.namespace}::{self.text}")

    @functools.cached_property
    def arguments(self) -> dict[str, tuple[bool, Any]]:
        """Name of each argument → whether it is keyword-only, and its default."""
        # NOTE: kept, because looking at the arguments of `parsed` calls into C++, and every call of an operator looks.
        return {item.name: (item.kwarg_only, item.default_value) for item in self.parsed.arguments}

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arguments that the operator writes."""
        return tuple(
            argument.name
            for argument in self.parsed.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )

    @property
    def takes_tensors(self) -> bool:
        """Whether a call says by its tensors which device it is for."""
        return any("Tensor" in str(argument.type) for argument in self.parsed.arguments)


@functools.cache
def schemas() -> dict[str, Schema]:
    """Return every custom operator's schema by name with overload."""
    file = resources.files("jumar.soc") / "data" / "npu_custom_operators.json"
    found = {}
    for text in json.loads(file.read_text(encoding="utf-8"))["schemas"]:
        for named, written in _WRITTEN.items():
            text = text.replace(named, written)  # noqa: PLW2901  # the line is made readable, then used once
        name = re.match(r"[\w.]+", text)
        assert name is not None, f"the packaged table holds a line that is no schema: {text!r}"
        found[name[0]] = Schema(name[0], text)
    return found
