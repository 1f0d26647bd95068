"""`NpuDialect`: torch_npu's device `npu`, its module `torch.npu`, its collectives `hccl`."""

from __future__ import annotations

import re

import libcst as cst

from jumar.convert.model.api_map import Counterpart, counterpart, missing_parameters, renamed_parameters
from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.literals import Literal
from jumar.convert.syntax.scripted import is_scripted
from jumar.convert.syntax.source import Reference
from jumar.convert.targets.base import Dialect, Edits, Rewrite
from jumar.convert.targets.spelling import quote_at

_OTHER_RESULT = {
    "torch.cuda.get_device_capability": "On an NPU it returns None, not (major, minor): guard its comparisons.",
    "torch.cuda.get_device_properties": "On an NPU the properties have no major, minor or multi_processor_count.",
    "torch.cuda.DoubleTensor": "NPUs compute float64 slowly or not at all; prefer float32.",
}
_NAMES_NPU = re.compile(r"npu|hccl", re.IGNORECASE)
_BACKENDS = {"nccl": "hccl", "NCCL": "HCCL"}


class NpuDialect(Dialect):
    """Writes names of torch_npu; a token for a token."""

    target = "npu"
    where = "the NPU"

    @property
    def requires(self) -> tuple[str, ...]:
        """What makes the npu device known."""
        return ("import torch_npu",)

    def needs(self, edits: Edits) -> tuple[str, ...]:
        """Return `import torch_npu` for edits that name the NPU or its collectives."""
        return self.requires if any(_NAMES_NPU.search(edit.text) for edit in edits) else ()

    def device_word(self, quote: str) -> str:
        """Return `'npu'`."""
        return f"{quote}npu{quote}"

    def backend_word(self, quote: str) -> str:
        """Return `'hccl'`."""
        return f"{quote}hccl{quote}"

    def counterpart(self, name: str) -> Counterpart:
        """Return the name of torch.npu, or of torch where PyTorch has a neutral one."""
        return counterpart(name)

    def reference(self, reference: Reference) -> Rewrite:
        """Rename the tokens that differ."""
        other = counterpart(reference.name)
        if other.kind == "missing":
            return self._similar(reference, other)
        tokens = self._rename(reference, other)
        if tokens is None:
            return Rewrite(
                problem=f"must become {other.name}, but this file has no name for torch",
                action=f"Import torch here and write {other.name}.",
            )
        note = _OTHER_RESULT.get(reference.name, "")
        if reference.call is not None:
            note = self._dropped(reference.name, reference.call) or note
            tokens += self._parameters(reference.name, reference.call)
        return Rewrite(edits=tuple(tokens), name=other.name or "", action=note)

    def _similar(self, reference: Reference, other: Counterpart) -> Rewrite:
        problem = "has no counterpart of the same meaning in torch_npu"
        if other.name is None or reference.names[0] != "torch" or not _has_one_argument(reference):
            return Rewrite(problem=problem, action=other.hint)
        span = self.source.span(reference.node)
        text = self.source.code(reference.chain[0]) + other.name.removeprefix("torch")
        return Rewrite(edits=(Replacement(*span, text),), problem=problem, action=other.hint, safe=False)

    def _rename(self, reference: Reference, other: Counterpart) -> list[Replacement] | None:
        """Return token replacements; None when they need a name this file does not have."""
        chain, names = reference.chain, reference.names
        if "torch.cuda" not in names:  # the root was imported from torch.cuda: its import statement is converted
            return []
        at = names.index("torch.cuda")
        cuda = chain[at]
        if other.kind == "moved":
            if isinstance(cuda, cst.Attribute):
                return [Replacement(self.source.outer_span(cuda.value)[1], self.source.span(cuda)[1], "")]
            known = self.source.scope(cuda).candidates("torch") == ("torch",)
            return [Replacement(*self.source.span(cuda), "torch")] if known else None
        found = [Replacement(*self.source.span(cuda.attr), "npu")] if isinstance(cuda, cst.Attribute) else []
        if other.kind == "renamed" and other.name is not None:
            leaf = chain[at + 1]
            name = leaf.attr if isinstance(leaf, cst.Attribute) else leaf
            found.append(Replacement(*self.source.span(name), other.name.split(".")[2]))
        return found

    def _parameters(self, name: str, call: cst.Call) -> list[Replacement]:
        new = renamed_parameters(name)
        return [
            Replacement(*self.source.span(arg.keyword), new[arg.keyword.value])
            for arg in call.args
            if arg.keyword is not None and arg.keyword.value in new
        ]

    @staticmethod
    def _dropped(name: str, call: cst.Call) -> str:
        missing = missing_parameters(name)
        dropped = [arg.keyword.value for arg in call.args if arg.keyword is not None and arg.keyword.value in missing]
        return f"Remove {', '.join(dropped)}: the NPU's function does not take it." if dropped else ""

    def device_literal(self, text: Literal) -> Edits | None:
        """Rename the word inside the string."""
        return (text.rename(),)

    def backend_literal(self, text: Literal) -> Edits | None:
        """Rename the word inside the string, or both halves of a compound."""
        if text.body.lower() == "nccl":
            return (text.rename(text.body, _BACKENDS.get(text.body, "Hccl")),)
        at = text.start + text.body.index("cuda:nccl")
        return Replacement(at, at + 4, "npu"), Replacement(at + 5, at + 9, "hccl")

    def comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Rename the word it is compared with."""
        return (text.rename(),)

    def backend_comparison(self, node: cst.Comparison, text: Literal) -> Edits | None:
        """Rename the word it is compared with."""
        return self.backend_literal(text)

    def prefix_test(self, call: cst.Call, text: Literal) -> Edits | None:
        """Rename the prefix."""
        return (text.rename(),)

    def is_cuda(self, node: cst.Attribute) -> Edits:
        """Rename the property to is_npu; TorchScript, which does not know it, is asked for the device's type."""
        if is_scripted(self.source, node):
            from jumar.convert.targets.agnostic import guards  # only code of TorchScript needs it

            return guards.is_cuda(self.source, node, self.quote)
        return (Replacement(*self.source.span(node.attr), "is_npu"),)

    def move(self, call: cst.Call) -> Rewrite:
        """Rename the method to npu, which takes the same arguments."""
        assert isinstance(call.func, cst.Attribute)
        if is_scripted(self.source, call):
            return self._scripted_move(call, call.func)
        return Rewrite(edits=(Replacement(*self.source.span(call.func.attr), "npu"),))

    def _scripted_move(self, call: cst.Call, method: cst.Attribute) -> Rewrite:
        """Write `.to('npu')`, the form that TorchScript compiles."""
        if call.args and not all(arg.keyword is not None and arg.keyword.value == "non_blocking" for arg in call.args):
            return Rewrite(
                problem="stands in TorchScript, which does not know `.npu()`",
                action="Write .to(device) with the device as an argument.",
            )
        at = self.source.span(call.args[0])[0] if call.args else self.source.span(call)[1] - 1
        word = self.device_word(quote_at(self.source, call, self.quote)) + (", " if call.args else "")
        return Rewrite(edits=(Replacement(*self.source.span(method.attr), "to"), Replacement(at, at, word)))

    def mover(self, node: cst.Attribute) -> Edits | None:
        """Rename the method to npu."""
        return (Replacement(*self.source.span(node.attr), "npu"),)

    def module_name(self, text: Literal) -> Edits | None:
        """Rename the module to torch.npu."""
        return (text.rename(),)


def _has_one_argument(reference: Reference) -> bool:
    return reference.call is not None and len(reference.call.args) <= 1
