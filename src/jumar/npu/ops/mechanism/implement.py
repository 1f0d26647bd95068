"""Write a custom operator as a function of CPU tensors; everything else follows from the vendor's schema.

    @implements("npu_rms_norm", outputs=(0,))
    def rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        ...

The function is called with all arguments of the schema, in its order, defaults filled in and keyword-only
ones by keyword; with `by_name` it is called by keywords alone, and gets those that it names. It must make
new tensors on the device of its arguments (`device=x.device`), so that it runs on meta tensors too, and be
composed of differentiable operators unless it says otherwise. From it `registration` makes the kernel on
the npu, the backward, the shape function, and the in-place and `out` overloads that the vendor has of the
same name. An operator is differentiable where the vendor's is. Under `torch.autocast` nothing is cast: the
vendor's lists name aten operators only.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from jumar.npu.ops.mechanism.schemas import Schema, schemas

Tensor = torch.Tensor
Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How one overload is computed."""

    schema: Schema
    function: Function
    """Of CPU (or meta) tensors; an operator that writes arguments writes the tensors it is given."""
    differentiable: bool = True
    outputs: tuple[int, ...] | None = None
    """Positions of the results a gradient flows through; None for all floating-point ones."""
    meta: Function | None = None
    """Shapes and dtypes where `function` cannot run on meta tensors."""
    backward: str = ""
    """The vendor's name for the backward operator."""
    reads_out: bool = False
    """Whether the function of an `out` overload is given the outputs, as keywords, because it reads them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call that is being differentiated."""

    arguments: Mapping[str, Any]
    """All arguments by their names in the schema."""
    results: Sequence[Any]
    """What the call returned, lists flattened; empty for a derivative that does not read it."""
    gradients: Sequence[Tensor | None]
    """Gradient of each result; None where none flowed."""
    needs: frozenset[str]
    """Names of the arguments that need a gradient."""


Derivative = Callable[[Step], Mapping[str, Any]]
"""Returns the gradients of the arguments by name, computed by operators on npu tensors."""

IMPLEMENTATIONS: dict[str, Implementation] = {}
"""By name with overload; filled by `implements` and `complete`."""
DERIVATIVES: dict[str, Derivative] = {}
READING_RESULTS: set[str] = set()
"""Operators whose derivative reads what the call returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Kernels of an operator that is no function of values: on npu tensors themselves."""

    kernel: Function
    meta: Function
    autograd: Function | None = None
    """Called with the key set of the call first; None where no gradient is recorded."""


OWN: dict[str, Own] = {}
"""Operators that have kernels of their own, by name with overload."""
FUNCTIONS: dict[str, Function] = {}
"""What `torch_npu.<name>` is where that is more than the operator, by name without overload."""
NEAREST: dict[str, str] = {}
"""What to use instead of an operator that is not implemented, where that is known."""


def implements(
    *names: str,
    differentiable: bool = True,
    outputs: tuple[int, ...] | None = None,
    meta: Function | None = None,
    backward: str = "",
    reads_out: bool = False,
    by_name: bool = False,
) -> Callable[[F], F]:
    """Register the decorated function as the implementation of these overloads: see `Implementation`.

    With `by_name` it takes its arguments by their names in the schema, and those only that it names.
    Raises LookupError for a name that the vendor does not have, ValueError for one that is taken.
    """

    def register(function: F) -> F:
        for name in names:
            if name in IMPLEMENTATIONS:
                raise ValueError(f"{name} is implemented by {IMPLEMENTATIONS[name].function.__module__} already")
            schema = _schema(name)
            IMPLEMENTATIONS[name] = Implementation(
                schema=schema,
                function=_by_name(schema, function) if by_name else function,
                differentiable=differentiable and not schema.written,
                outputs=outputs,
                meta=meta,
                backward=backward or f"{name.partition('.')[0]}_backward",
                reads_out=reads_out,
            )
        return function

    return register


def _by_name(schema: Schema, function: Function) -> Function:
    """Return a function of all arguments of the schema that passes on those which `function` names."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(schema.arguments, args, strict=False)), **kwargs}
        return function(**{name: value for name, value in given.items() if takes_all or name in parameters})

    return call


def derivative(*names: str, reads_results: bool = False) -> Callable[[Derivative], Derivative]:
    """Register the decorated function as the backward of these overloads.

    Only with `reads_results` are results kept for it, in `Step.results`: a program may write into others in place.

    Without one, the backward runs the implementation again under autograd, on the CPU. One is needed where
    the backward must know what the forward did (a dropout mask), and wanted where programs call the
    vendor's backward operator by name.
    """

    def register(function: Derivative) -> Derivative:
        for name in names:
            DERIVATIVES[_schema(name).name] = function
            if reads_results:
                READING_RESULTS.add(_schema(name).name)
        return function

    return register


def shared(step: Step, name: str, **others: Any) -> Any:
    """Call the operator `name` with the arguments that it has in common with the call, by name, and with `others`."""
    known = _schema(name).arguments
    given = {key: value for key, value in step.arguments.items() if key in known}
    return getattr(torch.ops.npu, name)(**(given | others))


def instead(advice: str, *names: str) -> None:
    """Name what works in place of operators that are not implemented."""
    for name in names:
        NEAREST[_schema(name).name] = advice


def _schema(name: str) -> Schema:
    try:
        return schemas()[name]
    except KeyError:
        close = ", ".join(difflib.get_close_matches(name, schemas(), n=3))
        raise LookupError(f"the vendor has no custom operator {name!r}; the nearest names are {close}") from None


def complete() -> None:
    """Add the in-place and `out` overloads of what is implemented, where they have no implementation of their own."""
    for name, schema in schemas().items():
        if name in IMPLEMENTATIONS or not schema.written:
            continue
        is_out = schema.parsed.arguments[-1].kwarg_only and schema.written[0] == _first_out(schema)
        source = IMPLEMENTATIONS.get(schema.base if is_out else name.removesuffix("_"))
        if source is not None:
            IMPLEMENTATIONS[name] = Implementation(
                schema=schema,
                function=source.function if is_out else _writing(source.function),
                differentiable=False,
            )


def _first_out(schema: Schema) -> str:
    return next((a.name for a in schema.parsed.arguments if a.kwarg_only and a.name in schema.written), "")


def _writing(function: Function) -> Function:
    """Return the in-place form of a function: its result replaces its first argument."""

    def call(target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return target.copy_(function(target, *args, **kwargs))

    return call


def arguments(schema: Schema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return all arguments, in the order of the schema: the dispatcher leaves out what is at its default."""
    positional, keywords = list(args), {}
    for position, (name, (keyword_only, default)) in enumerate(schema.arguments.items()):
        if keyword_only:
            keywords[name] = kwargs.get(name, default)
        elif position >= len(positional):
            positional.append(kwargs.get(name, default))
    return positional, keywords


def not_implemented(schema: Schema) -> Function:
    """Return the kernel of an operator that the emulator does not have."""

    def kernel(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{schema.qualified} is not emulated: the emulated NPU knows its schema but not its result; "
            f"{nearest(schema.name)}."
        )

    return kernel


def nearest(name: str) -> str:
    """Return what to do instead of calling this operator, as the end of a sentence."""
    if name in NEAREST:
        return NEAREST[name]
    close = difflib.get_close_matches(name, IMPLEMENTATIONS, n=1, cutoff=0.75)
    if close:
        return f"the nearest operator that works is npu::{close[0]}, or write it as a composition of torch operators"
    return "write it as a composition of torch operators"
