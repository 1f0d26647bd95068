"""`Form`: how one class or function of a CUDA library is written with PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from jumar.base.rules import Rule
from jumar.convert.rules.similar.replacing.replaced import Replaced, left, named
from jumar.convert.rules.similar.replacing.spelling import bound_arguments, constant, without_argument
from jumar.convert.rules.subject.context import Context, last_argument
from jumar.convert.syntax.source import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The new name, the parameters of the old one, and what becomes of each argument."""

    new: str
    parameters: tuple[str, ...]
    positional: int = 3
    """How many parameters have the same place in both."""
    dropped: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Parameter without an equal -> values with which it changes nothing; () for any constant."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> its default there, written out because PyTorch's is another."""
    caveat: str = ""
    as_value: bool = False
    """Whether the class may also be passed around or derived from: its defaults are those of the new one."""
    needed: str = ""
    """A parameter that every call must show."""


def written(context: Context, rule: Rule, reference: Reference, call: cst.Call, form: Form) -> Replaced:
    """Return a call in its new form, or why it is left."""
    source = context.source
    given = bound_arguments(call, form.parameters, positional=form.positional)
    if given is None or (form.needed and form.needed not in given):
        return left(context, rule, reference, "its arguments cannot be told apart here")
    for name, harmless in form.dropped.items():
        value = constant(given[name].value) if name in given else None
        if name in given and (isinstance(value, cst.CSTNode) or (harmless and value not in harmless)):
            return left(context, rule, reference, f"`{name}` has no equal")
    edits = [
        without_argument(source, call, given[name]) for name in form.parameters if name in form.dropped.keys() & given
    ]
    missing = [f"{name}={value}" for name, value in form.added.items() if name not in given]
    edits += [last_argument(source, call, ", ".join(missing))] if missing else []
    return named(context, rule, reference, form.new, edits, form.caveat)
