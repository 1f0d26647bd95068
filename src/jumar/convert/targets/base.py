"""`Dialect`, the interface of a target: a rule asks it how to write what replaces a use of CUDA."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import libcst as cst

from jumar.convert.model.api_map import Counterpart
from jumar.convert.model.edits import Replacement
from jumar.convert.model.options import Target
from jumar.convert.syntax.literals import Literal
from jumar.convert.syntax.source import Reference, Source

Edits = tuple[Replacement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """How one place is written for the target; without `edits` it needs none, or `problem` says why there are none."""

    edits: Edits = ()
    name: str = ""
    """What stands there afterwards, for messages."""
    problem: str = ""
    """Why the place cannot be written for the target, empty when it can."""
    action: str = ""
    """What the user should do or know."""
    safe: bool = True


class Dialect(ABC):
    """Writes code of one file for one target.

    A method that returns edits returns None where the target has no way to write that place; the caller
    reports it. Edits evaluate the same expressions, each once and in the same order, unless a docstring
    says otherwise. Not thread-safe: a dialect belongs to the conversion of one file.
    """

    target: ClassVar[Target]
    where: ClassVar[str]
    """The machines the result is for, in messages: `the NPU`."""

    def __init__(self, source: Source, quote: str) -> None:
        self.source = source
        self.quote = quote

    @property
    @abstractmethod
    def requires(self) -> tuple[str, ...]:
        """The statements that `device_word` and `backend_word` need at module level."""

    @abstractmethod
    def needs(self, edits: Edits) -> tuple[str, ...]:
        """Return the statements at module level that these edits rest on, in their order."""

    @abstractmethod
    def device_word(self, quote: str) -> str:
        """Return an expression for the kind of device, a `str`; `quote` is used where it is a literal."""

    @abstractmethod
    def backend_word(self, quote: str) -> str:
        """Return an expression for the collective back end of the device, a `str`."""

    @abstractmethod
    def counterpart(self, name: str) -> Counterpart:
        """Return what stands for `name`, which is `torch.cuda` or starts with `torch.cuda.`."""

    @abstractmethod
    def reference(self, reference: Reference) -> Rewrite:
        """Write the use of a name of torch.cuda (not torch.cuda.amp)."""

    @abstractmethod
    def device_literal(self, text: Literal) -> Edits | None:
        """Write a string that is a device, with or without index, or the name of a tensor type."""

    @abstractmethod
    def backend_literal(self, text: Literal) -> Edits | None:
        """Write a string that is `nccl`, or a compound with `cuda:nccl`."""

    @abstractmethod
    def comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Write a test of a device against `text`, which stands on either side or in a tuple on the right.

        The result is false on a CPU where the test was, and true on the target's accelerator.
        """

    @abstractmethod
    def backend_comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Write a test of a collective back end against `nccl`."""

    @abstractmethod
    def prefix_test(self, call: cst.Call, text: Literal) -> Edits | None:
        """Write `device.startswith('cuda')`."""

    @abstractmethod
    def is_cuda(self, node: cst.Attribute) -> Edits:
        """Write the property `x.is_cuda`."""

    @abstractmethod
    def move(self, call: cst.Call) -> Rewrite:
        """Write the call `x.cuda(...)` of a tensor, module or storage."""

    @abstractmethod
    def mover(self, node: cst.Attribute) -> Edits | None:
        """Write `torch.Tensor.cuda`, `torch.nn.Module.cuda` or the bound method `x.cuda` as a value."""

    @abstractmethod
    def module_name(self, text: Literal) -> Edits | None:
        """Write the string `torch.cuda`, the name of a module to import."""
