"""Code that names no vendor: one script for CUDA, NPU and CPU.

Everything hangs on one module-level variable, the kind of device there is (`'cuda'`, `'npu'`, `'cpu'`).
"""

from __future__ import annotations

import re

import libcst as cst

from jumar.migrate.api_map import Counterpart
from jumar.migrate.syntax.literals import Literal
from jumar.migrate.syntax.source import Reference, Source
from jumar.migrate.targets import agnostic_guards, agnostic_strings
from jumar.migrate.targets.accelerator_names import as_counterpart
from jumar.migrate.targets.agnostic_calls import write
from jumar.migrate.targets.agnostic_moves import move, mover
from jumar.migrate.targets.base import Dialect, Edits, Rewrite
from jumar.migrate.targets.module_names import ModuleNames


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
