"""The vocabulary of operators: names, traits, families, schemas, dtypes and FLOPs. Imports no torch.

`operator("aten::add_.Tensor")` returns an `Operator`: its names and its traits. `has(name, "view")` asks for one trait.
`named("convolution")` returns the names that have one.
Every function takes a name in every spelling: `aten::add_.Tensor`, `add_`, `add`.
"""

from __future__ import annotations

from jumar.operators.names import base_name, canonical_name, functional_name, is_foreach, is_in_place, parse, short_name
from jumar.operators.traits import (
    Operator,
    Trait,
    draws,
    has,
    has_any,
    listed,
    named,
    operator,
    undefined_outputs,
    writes,
)

__all__ = [
    "Operator",
    "Trait",
    "base_name",
    "canonical_name",
    "draws",
    "functional_name",
    "has",
    "has_any",
    "is_foreach",
    "is_in_place",
    "listed",
    "named",
    "operator",
    "parse",
    "short_name",
    "undefined_outputs",
    "writes",
]
