"""Writes uses of torch.cuda names in agnostic code so that they do no harm on a CPU."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from jumar.convert.model.api_map import missing_parameters, renamed_parameters
from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.targets.agnostic.accelerator_names import ANYWHERE, ON_CPU_MODULE, TAKES_DEVICE, Neutral, neutral
from jumar.convert.targets.base import Edits, Rewrite
from jumar.convert.targets.expressions import is_pure
from jumar.convert.targets.guarded import is_guarded
from jumar.convert.targets.module_names import ModuleNames
from jumar.convert.targets.spelling import around, quote_at

_TENSOR = re.compile(r"[A-Z]\w*Tensor")
_INDEX = re.compile(r"(^|_)(id|idx|index|rank|gpu)$", re.IGNORECASE)


def tensor_type(torch: str, device_type: str, kind: str, quote: str) -> str:
    """Return an expression for a tensor type of the device, the CPU's own where there is no accelerator."""
    return f"getattr({torch}.get_device_module({device_type}), {quote}{kind}{quote}, {torch}.{kind})"


def write(source: Source, names: ModuleNames, reference: Reference) -> Rewrite:
    """Write one use of a torch.cuda name."""
    found = neutral(reference.name)
    if found.home == "none":
        return Rewrite(problem="has no counterpart on every accelerator", action=found.hint)
    if _is_alias(source, reference):
        return Rewrite()
    torch = _torch(source, names, reference)
    if torch is None:
        return Rewrite(problem="needs torch, which is another name here", action="Import torch here.")
    if "#" in source.code(reference.node) and not _is_plain(reference):
        return Rewrite(problem="holds a comment that its new form has no place for", action="Move the comment.")
    return _Writer(source, names, reference, found, torch).write()


def _is_alias(source: Source, reference: Reference) -> bool:
    """Tell whether the root is a variable that was given a part of torch.cuda, which is written where it was."""
    root = reference.chain[0]
    if "torch" in reference.names or not isinstance(root, cst.Name):
        return False
    return any(binding.kind == "assign" for binding in source.scope(root).bindings_of(root.value))


def _torch(source: Source, names: ModuleNames, reference: Reference) -> str | None:
    if reference.names[0] == "torch":
        return source.code(reference.chain[0])
    return names.torch_at(reference.node)


def _is_plain(reference: Reference) -> bool:
    """Tell whether the chain is written `torch.cuda` or `torch.cuda.name`, which is edited a token at a time."""
    return reference.names[0] == "torch" and len(reference.chain) <= 3


class _Writer:
    def __init__(self, source: Source, names: ModuleNames, reference: Reference, found: Neutral, torch: str) -> None:
        self.source, self.names, self.reference, self.found, self.torch = source, names, reference, found, torch
        self.module = f"get_device_module({names.device_type})"
        self.leaf = reference.name.rpartition(".")[2]

    def write(self) -> Rewrite:
        found, call = self.found, self.reference.call
        if found.home == "torch":
            return self._rewrite(found.name)
        if _TENSOR.fullmatch(found.name) and self.source.enclosing(self.reference.node, cst.Annotation) is not None:
            return Rewrite(edits=(self._whole(f"{self.torch}.Tensor"),), name="torch.Tensor")
        if _TENSOR.fullmatch(found.name) and not is_guarded(self.source, self.reference.node):
            quote = quote_at(self.source, self.reference.node, self.names.quote)
            text = tensor_type(self.torch, self.names.device_type, found.name, quote)
            return Rewrite(edits=(self._whole(text),), name=f"the device's {found.name}")
        if found.home == "module":
            return self._of_module(call)
        if found.name in ANYWHERE:
            return self._rewrite(f"accelerator.{found.name}")
        return self._of_accelerator(call)

    def _of_accelerator(self, call: cst.Call | None) -> Rewrite:
        guarded = is_guarded(self.source, self.reference.node)
        if self.leaf == "device" and not _takes_index(call):
            return self._of_module(call)
        if not guarded and self.leaf in ON_CPU_MODULE:
            return self._of_module(call)
        rewrite = self._rewrite(f"accelerator.{self.found.name}")
        if call is not None and self.found.name in TAKES_DEVICE:
            rewrite = replace(rewrite, edits=(*rewrite.edits, *self._positional(call, {"device"})))
        return rewrite if guarded else self._or_on_cpu(rewrite, call)

    def _of_module(self, call: cst.Call | None) -> Rewrite:
        name = f".{self.found.name}" if self.found.home == "module" and self.found.name else ""
        if self.found.home == "accelerator":
            name = f".{self.leaf}"
        rewrite = self._rewrite(self.module + name)
        note = self.found.hint
        if call is not None:
            cuda = f"torch.cuda.{self.leaf}"
            renamed = set(renamed_parameters(cuda))
            moved = self._positional(call, renamed)
            passed = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            differing = sorted(passed & missing_parameters(cuda)) or sorted(passed & renamed if not moved else ())
            if differing:
                note = f"The NPU's function does not take {', '.join(differing)}."
            rewrite = replace(rewrite, edits=(*rewrite.edits, *moved))
        rewrite = replace(rewrite, action=note)
        return rewrite if is_guarded(self.source, self.reference.node) else self._or_on_cpu(rewrite, call)

    def _positional(self, call: cst.Call, keywords: set[str]) -> list[Replacement]:
        """Take the name off a first argument that is passed by one of these keywords."""
        first = call.args[0] if call.args else None
        if first is None or first.keyword is None or first.keyword.value not in keywords:
            return []
        return [Replacement(self.source.span(first.keyword)[0], self.source.outer_span(first.value)[0], "")]

    def _or_on_cpu(self, rewrite: Rewrite, call: cst.Call | None) -> Rewrite:
        """Keep what the CUDA function did without a CUDA device: nothing, or answering with a constant."""
        if self.found.on_cpu is None or call is None or not all(is_pure(self.source, arg.value) for arg in call.args):
            return rewrite
        test = f"{self.torch}.accelerator.is_available()"
        start, end = self.source.span(call)
        line = self._own_line(call)
        if line is not None:
            text = self.source.text
            indent = text.text[text.line_start(start) : start]
            step = self.source.module.default_indent
            return replace(rewrite, edits=self._headed(f"if {test}:{text.newline}{indent}{step}", rewrite.edits))
        opening, closing = around(self.source, call, "conditional")
        before = (Replacement(start, start, opening),) if opening else ()
        tail = Replacement(end, end, f" if {test} else {self.found.on_cpu}{closing}")
        return replace(rewrite, edits=(*before, *rewrite.edits, tail))

    def _headed(self, head: str, edits: Edits) -> Edits:
        """Put text before the first token, as part of its edit: statements are inserted before that place."""
        start, end = self.source.span(self.reference.chain[0])
        if edits and edits[0].start == start:
            return (replace(edits[0], text=head + edits[0].text), *edits[1:])
        return (Replacement(start, end, head + self.source.code(self.reference.chain[0])), *edits)

    def _own_line(self, call: cst.Call) -> cst.SimpleStatementLine | None:
        """Return the line that consists of this call alone, in a suite of lines."""
        statement = self.source.parent(call)
        line = self.source.parent(statement) if isinstance(statement, cst.Expr) else None
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or call.lpar:
            return None
        return line if isinstance(self.source.parent(line), (cst.IndentedBlock, cst.Module)) else None

    def _rewrite(self, path: str) -> Rewrite:
        """Write `torch.<path>`; a chain that starts with torch keeps what it can of its tokens."""
        reference = self.reference
        name = f"torch.{path}"
        if not _is_plain(reference):
            return Rewrite(edits=(self._whole(f"{self.torch}.{path}"),), name=name)
        cuda, leaf = reference.chain[1], reference.chain[-1]
        assert isinstance(cuda, cst.Attribute)
        assert isinstance(leaf, cst.Attribute)
        if self.found.home == "torch":
            edits = [Replacement(self.source.outer_span(cuda.value)[1], self.source.span(cuda)[1], "")]
            return Rewrite(edits=tuple(edits), name=name)
        head, _, last = path.partition(".")
        edits = [Replacement(*self.source.span(cuda.attr), head)]
        if leaf is not cuda and leaf.attr.value != last:
            edits.append(Replacement(*self.source.span(leaf.attr), last))
        return Rewrite(edits=tuple(edits), name=name)

    def _whole(self, text: str) -> Replacement:
        return Replacement(*self.source.span(self.reference.node), text)


def _takes_index(call: cst.Call | None) -> bool:
    """Tell whether torch.cuda.device is called with what torch.accelerator.device_index takes: a number or None."""
    if call is None or len(call.args) != 1 or call.args[0].star:
        return False
    value = call.args[0].value
    if isinstance(value, cst.Integer):
        return True
    name = last_name(value)
    return _INDEX.search(name) is not None
