"""`AgnosticDialect`: code that names no vendor, one script for CUDA, NPU and CPU.

Everything hangs on one module-level variable, the kind of device there is (`'cuda'`, `'npu'`, `'cpu'`).
"""

from __future__ import annotations

import re

import libcst as cst

from jumar.convert.model.api_map import Counterpart
from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.literals import Literal, literal
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.targets.agnostic import guards as agnostic_guards
from jumar.convert.targets.agnostic import strings as agnostic_strings
from jumar.convert.targets.agnostic.accelerator_names import as_counterpart
from jumar.convert.targets.agnostic.calls import write
from jumar.convert.targets.base import Dialect, Edits, Rewrite
from jumar.convert.targets.module_names import ModuleNames
from jumar.convert.targets.spelling import around


class AgnosticDialect(Dialect):
    """Writes expressions on the device variable, names of torch.accelerator and of the device's module."""

    target = "agnostic"
    where = "any accelerator"

    def __init__(self, source: Source, quote: str) -> None:
        super().__init__(source, quote)
        self.names = ModuleNames(source, quote)

    @property
    def requires(self) -> tuple[str, ...]:
        """The definition of the device variable, and torch for it."""
        return (*self.names.imports, self.names.definition)

    def needs(self, edits: Edits) -> tuple[str, ...]:
        """Return the definition of the device variable for edits that use it, and the import of torch."""
        text = "\n".join(edit.text for edit in edits)
        if re.search(rf"\b{self.names.device_type}\b", text):
            return self.requires
        return self.names.imports if re.search(r"\btorch\.", text) else ()

    def device_word(self, quote: str) -> str:
        """Return the device variable."""
        return self.names.device_type

    def backend_word(self, quote: str) -> str:
        """Return the call that gives the back end PyTorch has registered for the device."""
        return f"{self.names.torch or 'torch'}.distributed.get_default_backend_for_device({self.names.device_type})"

    def counterpart(self, name: str) -> Counterpart:
        """Return the name of torch.accelerator, of the device module (`torch.get_device_module()`), or of torch."""
        return as_counterpart(name)

    def reference(self, reference: Reference) -> Rewrite:
        """Write torch.accelerator, the device's module, or a neutral name of torch."""
        return write(self.source, self.names, reference)

    def device_literal(self, text: Literal) -> Edits | None:
        """Put the variable in place of the string, or into it."""
        return agnostic_strings.device(self.source, self.names, text)

    def backend_literal(self, text: Literal) -> Edits | None:
        """Put a call that gives the device's back end in place of the string."""
        return agnostic_strings.backend(self.source, self.names, text, self.backend_word(text.quote))

    def module_name(self, text: Literal) -> Edits | None:
        """Put the device's name into the module's."""
        if not agnostic_strings.takes_expression(self.source, text.node):
            return None
        return agnostic_strings.filled(self.source, self.names, text)

    def comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Chain the test with one that is false on a CPU."""
        return agnostic_guards.comparison(self.source, self.names, node, text)

    def backend_comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Chain the test with one that is false for gloo."""
        if text.body != "nccl":
            return None
        gloo = f"{text.quote}gloo{text.quote}"
        return agnostic_guards.chained(self.source, node, text, self.backend_word(text.quote), gloo)

    def prefix_test(self, call: cst.Call, text: Literal) -> Edits | None:
        """Ask for the device's own prefix, and that it is no CPU."""
        return agnostic_guards.prefix_test(self.source, self.names, call, text)

    def is_cuda(self, node: cst.Attribute) -> Edits:
        """Ask the tensor's device for its type."""
        return agnostic_guards.is_cuda(self.source, node, self.quote)

    def move(self, call: cst.Call) -> Rewrite:
        """Write `.to(...)` with the arguments of `.cuda(...)`."""
        return move(self.source, self.names, call)

    def mover(self, node: cst.Attribute) -> Edits | None:
        """Write a function that moves what it is given."""
        return mover(self.source, self.names, node)


_INDEX_NAME = re.compile(r"(^|_)(id|idx|ids|index|rank|num|number|ordinal|gpu|gpus)\d*$", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"dev", re.IGNORECASE)


def move(source: Source, names: ModuleNames, call: cst.Call) -> Rewrite:
    """Write `x.to(...)`; a number (or None, the current device) becomes a device with that index."""
    assert isinstance(call.func, cst.Attribute)
    if any(arg.star == "*" for arg in call.args):
        return Rewrite(problem="unpacks its arguments, which .to() takes in another order", action="Write .to(...).")
    edits = [Replacement(*source.span(call.func.attr), "to")]
    first = _device_argument(call)
    keyword = "device=" if _is_storage(call.func.value) else ""
    if first is None:
        at = source.span(call.args[0])[0] if call.args else source.span(call)[1] - 1
        edits.append(Replacement(at, at, f"{keyword}{names.device_type}{', ' if call.args else ''}"))
        return Rewrite(edits=tuple(edits))
    start, end = source.outer_span(first.value)
    edits += _second(source, call)
    head = keyword if first.keyword is None else ""
    if not is_device(source, first.value):
        torch = names.torch_at(call)
        if torch is None:
            return Rewrite(problem="needs torch, which is another name here", action="Write .to(device).")
        head += f"{torch}.device({names.device_type}, "
        edits.append(Replacement(end, end, ")"))
    if head:
        edits.append(Replacement(start, start, head))
    return Rewrite(edits=tuple(edits))


def _device_argument(call: cst.Call) -> cst.Arg | None:
    """Return the argument that says where to, None when it is left open."""
    if call.args and call.args[0].keyword is None and not call.args[0].star:
        return call.args[0]
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "device"), None)


def _is_storage(node: cst.BaseExpression) -> bool:
    """Tell whether the object reads as a storage, whose .to() takes keywords only."""
    return isinstance(node, cst.Name) and node.value in ("storage", "stg")


def _second(source: Source, call: cst.Call) -> list[Replacement]:
    """Name the second positional argument, which is non_blocking for .cuda() and a dtype for .to()."""
    if len(call.args) < 2 or call.args[1].keyword is not None or call.args[1].star:
        return []
    at = source.span(call.args[1])[0]
    return [Replacement(at, at, "non_blocking=")]


def is_device(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether an argument of .cuda() is a device or the name of one, and not a number or None."""
    if isinstance(node, cst.BinaryOperation):
        return is_device(source, node.left)
    if literal(source, node) is not None or isinstance(node, cst.ConcatenatedString):
        return True
    if isinstance(node, cst.Call):
        is_format = isinstance(node.func, cst.Attribute) and literal(source, node.func.value) is not None
        return is_format or source.qualified(node.func) in ("torch.device", "builtins.str")
    name = last_name(node)
    return _DEVICE_NAME.search(name) is not None and _INDEX_NAME.search(name) is None


def mover(source: Source, names: ModuleNames, node: cst.Attribute) -> Edits | None:
    """Write a function for `torch.Tensor.cuda`; a bound method has none that evaluates its object once."""
    if not (source.qualified(node) or "").startswith("torch."):
        return None
    opening, closing = around(source, node, "lambda")
    text = f"{opening}lambda value: value.to({names.device_type}){closing}"
    return (Replacement(*source.span(node), text),)
