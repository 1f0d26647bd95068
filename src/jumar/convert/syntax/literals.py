"""String literals that name a device, in all spellings of Python strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.source import Source

StringNode = cst.SimpleString | cst.FormattedString

_DEVICE = re.compile(r"cuda(:(\d+|%[sdi]|\{[^{}]*\})?)?")
_TENSOR_TYPE = re.compile(r"torch\.cuda\.[A-Z]\w*Tensor")


@dataclass(frozen=True, slots=True)
class Literal:
    """A string literal: `body` is the text between its quotes, `start` where that text starts.

    Of an f-string, `body` is the text before the first replacement field; `fields` tells how much follows.
    """

    node: StringNode
    body: str
    start: int
    num_fields: int = 0
    ends_with_field: bool = False

    @property
    def quote(self) -> str:
        """The quotation mark of the literal, one character."""
        mark = self.node.quote if isinstance(self.node, cst.SimpleString) else self.node.end
        return mark[0]

    @property
    def is_bare(self) -> bool:
        """Whether the literal is exactly `cuda`."""
        return self.body == "cuda" and self.num_fields == 0

    @property
    def is_indexed(self) -> bool:
        """Whether the literal is `cuda:` with an index, written out or filled in."""
        if self.num_fields:
            return self.body == "cuda:" and self.num_fields == 1 and self.ends_with_field
        return self.body != "cuda" and _DEVICE.fullmatch(self.body) is not None

    @property
    def is_tensor_type(self) -> bool:
        """Whether the literal is the name of a CUDA tensor type, `torch.cuda.FloatTensor`."""
        return self.num_fields == 0 and _TENSOR_TYPE.fullmatch(self.body) is not None

    def rename(self, old: str = "cuda", new: str = "npu") -> Replacement:
        """Return the replacement of the first `old` in the body by `new`."""
        at = self.start + self.body.index(old)
        return Replacement(at, at + len(old), new)


def literal(source: Source, node: cst.CSTNode) -> Literal | None:
    """Return `node` as a literal; None for other nodes and for bytes."""
    if isinstance(node, cst.SimpleString):
        if "b" in node.prefix.lower():
            return None
        head = len(node.prefix) + len(node.quote)
        return Literal(node, node.value[head : -len(node.quote)], source.span(node)[0] + head)
    if isinstance(node, cst.FormattedString):
        return _formatted(source, node)
    return None


def _formatted(source: Source, node: cst.FormattedString) -> Literal:
    first = node.parts[0] if node.parts else None
    start = source.span(node)[0] + len(node.start)
    fields = sum(isinstance(part, cst.FormattedStringExpression) for part in node.parts)
    body = first.value if isinstance(first, cst.FormattedStringText) else ""
    ends = bool(node.parts) and isinstance(node.parts[-1], cst.FormattedStringExpression)
    texts = sum(isinstance(part, cst.FormattedStringText) for part in node.parts)
    return Literal(node, body, start, fields if texts <= 1 else fields + 1, ends)


def literals(source: Source) -> Iterator[Literal]:
    """Yield every string literal but the parts of implicit concatenations and docstrings."""
    for node in source.nodes(cst.SimpleString, cst.FormattedString):
        if isinstance(source.parent(node), (cst.ConcatenatedString, cst.Expr)):
            continue
        found = literal(source, node)
        if found is not None:
            yield found
