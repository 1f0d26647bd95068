"""Finds code that handles the NPU beside CUDA already. The branch for CUDA stays.

Libraries that run on several vendors' devices test for one after the other. Renaming the test for CUDA
there would give two branches for the NPU and none for CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.spans import Span
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import syntax_children

_NPU = re.compile(r"(?<![a-z])npu(?![a-z])|ascend(?!ing)", re.IGNORECASE)
_CUDA = re.compile(r"cuda", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Side:
    """The part of such code for CUDA: the test, and the body that runs only where the test holds."""

    test: Span
    body: Span | None = None


def cuda_sides(source: Source) -> list[Side]:
    """Return tests for CUDA that stand beside one for the NPU, in the order of the text."""
    if not _NPU.search(source.text.text):
        return []
    found = {side.test: side for side in (*_operands(source), *_branches(source))}
    return [found[span] for span in sorted(found)]


def _branches(source: Source) -> Iterator[Side]:
    """Yield test and body of `if cuda:` in a chain that has `elif npu:`, in either order."""
    for head in source.nodes(cst.If):
        if isinstance(source.parent(head), cst.If):
            continue
        chain = list(_chain(head))
        if any(_says(branch.test, _NPU) for branch in chain):
            for branch in chain:
                if _says(branch.test, _CUDA) and not _says(branch.test, _NPU):
                    yield Side(source.span(branch.test), source.span(branch.body))
    for choice in source.nodes(cst.IfExp):
        if isinstance(choice.orelse, cst.IfExp) and _says(choice.orelse.test, _NPU) and _says(choice.test, _CUDA):
            yield Side(source.span(choice.test), source.span(choice.body))


def _chain(head: cst.If) -> Iterator[cst.If]:
    branch: cst.CSTNode | None = head
    while isinstance(branch, cst.If):
        yield branch
        branch = branch.orelse


def _operands(source: Source) -> Iterator[Side]:
    """Yield the test for CUDA of `x.is_cuda or x.is_npu`, of `in ('cuda', 'npu')` and the like."""
    for operation in source.nodes(cst.BooleanOperation):
        if not isinstance(source.parent(operation), cst.BooleanOperation) and _says(operation, _NPU):
            yield from (
                Side(source.span(operand))
                for operand in _leaves(operation)
                if _says(operand, _CUDA) and not _says(operand, _NPU)
            )
    for comparison in source.nodes(cst.Comparison):
        choices = comparison.comparisons[0].comparator
        if isinstance(choices, (cst.Tuple, cst.List, cst.Set)) and _says(choices, _NPU) and _says(choices, _CUDA):
            yield Side(source.span(choices))


def _leaves(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BooleanOperation):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _says(node: cst.CSTNode, word: re.Pattern[str]) -> bool:
    """Tell whether a name or string in an expression has the word."""
    if isinstance(node, cst.Name):
        return word.search(node.value) is not None
    if isinstance(node, cst.SimpleString):
        return word.search(node.raw_value) is not None
    return any(_says(child, word) for child in syntax_children(node))


def has_twin(source: Source, name: str) -> bool:
    """Tell whether this file has the NPU's name (`is_npu`) beside a name with CUDA (`is_cuda`, `IS_CUDA_AVAILABLE`)."""
    twin = name.replace("cuda", "npu").replace("CUDA", "NPU").replace("Cuda", "Npu")
    if twin == name:
        return False
    names = (node.value for node in source.nodes(cst.Name))
    functions = (node.name.value for node in source.nodes(cst.FunctionDef))
    return twin in names or twin in functions
