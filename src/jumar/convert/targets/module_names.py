"""The two module-level names that agnostic code needs: torch, and the kind of device."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from jumar.convert.syntax.scopes import Binding
from jumar.convert.syntax.source import Source

_CANDIDATES = ("DEVICE_TYPE", "ACCELERATOR_TYPE", "TORCH_DEVICE_TYPE")
IMPORT_TORCH = "import torch"


class ModuleNames:
    """Finds the file's name for torch, and a name for the device that nothing else uses."""

    def __init__(self, source: Source, quote: str) -> None:
        self._source = source
        self.quote = quote

    @cached_property
    def torch(self) -> str | None:
        """The module's own name for torch (`torch`, `th`), None when it has none."""
        scope = self._source.tree.own_scopes[self._source.module]
        names = [name for name in scope.bindings if scope.candidates(name) == ("torch",)]
        return "torch" if "torch" in names else next(iter(names), None)

    def torch_at(self, node: cst.CSTNode) -> str | None:
        """Return a name that is torch where `node` is evaluated, perhaps after `import torch`, or None."""
        scope = self._source.scope(node)
        if self.torch is not None:
            return self.torch if scope.candidates(self.torch) == ("torch",) else None
        bindings = scope.bindings_of("torch")
        return "torch" if not bindings or scope.candidates("torch") == ("torch",) else None

    @property
    def imports(self) -> tuple[str, ...]:
        """The import that makes `torch` known at module level, where it is not."""
        return () if self.torch is not None else (IMPORT_TORCH,)

    @cached_property
    def device_type(self) -> str:
        """The variable for the kind of device: the one of an earlier conversion, else a name that is free."""
        found = self._defined()
        if found is not None:
            return found
        taken = {node.value for node in self._source.nodes(cst.Name)}
        numbered = (f"{_CANDIDATES[0]}_{number}" for number in range(2, len(taken) + 3))
        return next(name for name in (*_CANDIDATES, *numbered) if name not in taken)

    @property
    def definition(self) -> str:
        """The statement that defines `device_type`."""
        torch = self.torch or "torch"
        return f"{self.device_type} = {self._value(torch)}"

    def _value(self, torch: str) -> str:
        accelerator = f"{torch}.accelerator"
        cpu = f"{self.quote}cpu{self.quote}"
        return f"{accelerator}.current_accelerator().type if {accelerator}.is_available() else {cpu}"

    def _defined(self) -> str | None:
        scope = self._source.tree.own_scopes[self._source.module]
        for name, bindings in scope.bindings.items():
            if len(bindings) == 1 and self._is_definition(bindings[0]):
                return name
        return None

    def _is_definition(self, binding: Binding) -> bool:
        if self.torch is None or not isinstance(binding.value, cst.IfExp):
            return False
        code = "".join(self._source.code(binding.value).split()).replace('"', "'")
        return code == "".join(self._value(self.torch).split()).replace('"', "'")
