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
_CUDA = re.compile(r"cuda|nccl", re.IGNORECASE)
_FOUND = re.compile(r"(?:is|has)_(?:\w+_)?npu|npu(?:_is)?_available", re.IGNORECASE)
"""A name that says whether an NPU is there."""


@dataclass(frozen=True, slots=True)
class Side:
    """The part of such code for CUDA: the test, and the body that runs only where the test holds."""

    test: Span
    body: Span | None = None


def cuda_sides(source: Source) -> list[Side]:
    """Return tests for CUDA that stand beside one for the NPU, in the order of the text."""
    if not _NPU.search(source.text.text):
        return []
    sides = (*_operands(source), *_branches(source), *_entries(source), *_remainders(source))
    found = {side.test: side for side in sides}
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
    blocks: list[cst.Module | cst.IndentedBlock] = [source.module, *source.nodes(cst.IndentedBlock)]
    for block in blocks:
        for group in _rows(source, block):
            if any(_says(branch.test, _NPU) for branch in group):
                for branch in group:
                    if _says(branch.test, _CUDA) and not _says(branch.test, _NPU):
                        yield Side(source.span(branch.test), source.span(branch.body))
    for choice in source.nodes(cst.IfExp):
        if isinstance(choice.orelse, cst.IfExp) and _says(choice.orelse.test, _NPU) and _says(choice.test, _CUDA):
            yield Side(source.span(choice.test), source.span(choice.body))


def _remainders(source: Source) -> Iterator[Side]:
    """Yield code for CUDA that runs only where a test has found no NPU: its `else`, what follows where its body leaves
    the block, the other value of a choice."""
    for head in source.nodes(cst.If):
        if isinstance(head.test, cst.UnaryOperation) and isinstance(head.test.operator, cst.Not):
            found: Span | None = source.span(head.body) if _finds_npu(source, head.test.expression) else None
        else:
            found = _otherwise(source, head) if _finds_npu(source, head.test) else None
        if found is not None and _CUDA.search(source.text.text, *found):
            yield Side(found)
    for choice in source.nodes(cst.IfExp):
        if _finds_npu(source, choice.test) and _says(choice.orelse, _CUDA):
            yield Side(source.span(choice.orelse))


def _otherwise(source: Source, head: cst.If) -> Span | None:
    """Return what runs where no test of a chain holds that begins here."""
    last = list(_chain(head))[-1]
    if last.orelse is not None:
        return source.span(last.orelse.body)
    block = source.parent(head)
    if not isinstance(block, cst.IndentedBlock) or not _ends_block(head.body):
        return None
    rest = block.body[list(block.body).index(head) + 1 :]
    return (source.span(rest[0])[0], source.span(rest[-1])[1]) if rest else None


def _ends_block(body: cst.BaseSuite) -> bool:
    """Return whether nothing that follows a body is run after it."""
    last = body.body[-1] if body.body else None
    statement = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(statement, (cst.Return, cst.Raise, cst.Continue))


def _finds_npu(source: Source, test: cst.BaseExpression) -> bool:
    """Return whether a test holds only where an NPU is there."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _finds_npu(source, test.left) or _finds_npu(source, test.right)
    name = test.func if isinstance(test, cst.Call) else test
    if not isinstance(name, (cst.Name, cst.Attribute)):
        return False
    written = source.code(name)
    return _FOUND.search(written.rpartition(".")[2]) is not None or written.endswith("npu.is_available")


def _rows(source: Source, block: cst.Module | cst.IndentedBlock) -> Iterator[list[cst.If]]:
    """Yield `if`s that stand one after the other and compare the same thing: `if d == 'cuda':`, `if d == 'npu':`."""
    row: list[cst.If] = []
    subject = ""
    for statement in block.body:
        test = statement.test if isinstance(statement, cst.If) else None
        compared = source.code(test.left) if isinstance(test, cst.Comparison) else ""
        if isinstance(statement, cst.If) and compared and compared == subject:
            row.append(statement)
            continue
        if len(row) > 1:
            yield row
        row, subject = ([statement], compared) if isinstance(statement, cst.If) else ([], "")
    if len(row) > 1:
        yield row


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


def _entries(source: Source) -> Iterator[Side]:
    """Yield CUDA's key and value of a table with a key for the NPU, its word in a list with the NPU's, its `case`."""
    for table in source.nodes(cst.Dict):
        entries = [element for element in table.elements if isinstance(element, cst.DictElement)]
        if any(_says(entry.key, _NPU) for entry in entries):
            for entry in entries:
                if _says(entry.key, _CUDA) and not _says(entry.key, _NPU):
                    yield Side(source.span(entry.key), source.span(entry.value))
    lists: list[cst.List | cst.Tuple | cst.Set] = [
        *source.nodes(cst.List),
        *source.nodes(cst.Tuple),
        *source.nodes(cst.Set),
    ]
    for choices in lists:
        words = [element.value for element in choices.elements if isinstance(element.value, cst.SimpleString)]
        if any(_says(word, _NPU) for word in words):
            yield from (Side(source.span(word)) for word in words if _says(word, _CUDA) and not _says(word, _NPU))
    for subscript in source.nodes(cst.Subscript):
        if (source.qualified(subscript.value) or "").endswith(".Literal") and _says(subscript, _NPU):
            indices = [element.slice.value for element in subscript.slice if isinstance(element.slice, cst.Index)]
            yield from (Side(source.span(word)) for word in indices if _says(word, _CUDA) and not _says(word, _NPU))
    for match in source.nodes(cst.Match):
        if any(_says(case.pattern, _NPU) for case in match.cases):
            for case in match.cases:
                if _says(case.pattern, _CUDA) and not _says(case.pattern, _NPU):
                    yield Side(source.span(case.pattern), source.span(case.body))


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
    return twin in source.derived(_own_names)


def _own_names(source: Source) -> frozenset[str]:
    """Return the names and functions of a file."""
    names = (node.value for node in source.nodes(cst.Name))
    return frozenset((*names, *(node.name.value for node in source.nodes(cst.FunctionDef))))
