"""Long chains of operators (`a + b + c + …`): parsed in pieces and put together as a balanced tree.

LibCST's native parser copies the left side once an operand, so a sum of 3,000 calls takes it 24 s, and it nests one
level an operand, more than Python's recursion takes. Here each piece of a chain is parsed by itself, in the place of
the chain stands a name of the same length, and the pieces become a tree of logarithmic depth. Its code is the same,
character by character; only how far operands of equal precedence are nested differs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from jumar.convert.model.text import UNPARSABLE, parse_python

LONG = 96
"""Operators of a logical line from which it is looked at."""
_PIECE = 24
"""Operands that are parsed together."""

_OPERATOR = re.compile(r"\b(?:and|or)\b|[-+*/%&|^@]")
_GAP = re.compile(r"(?P<space>#[^\n]*|\\\r?\n|\s+)|(?P<bracket>[()])|(?P<operator>and|or|\*\*|//|<<|>>|[-+*/%&|^@])")
_BREAK = re.compile(r"[()\[\]{}]|(?<!\\)\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_LEVELS: tuple[tuple[type[ast.operator], ...], ...] = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult),
    (ast.LShift, ast.RShift),
    (ast.BitOr,),
    (ast.BitXor,),
    (ast.BitAnd,),
)


def parse_module(text: str) -> cst.Module:
    """Return LibCST's tree of a source; what LibCST raises is raised here."""
    chains = _chains(text) if may_hold_chains(text) else []
    if not chains:
        return cst.parse_module(text)
    nodes = {chain.name: chain.node() for chain in chains}
    module = cst.parse_module(_with_names(text, chains)).visit(_Inserter(nodes))
    assert isinstance(module, cst.Module)
    return module


def may_hold_chains(text: str) -> bool:
    """Tell by a look whether a logical line of a source has so many operators that a chain in it may be long."""
    return len(text) > 2 * LONG and any(
        len(line) > 2 * LONG and sum(1 for _ in _OPERATOR.finditer(line)) > LONG for line in logical_lines(text)
    )


def logical_lines(text: str) -> Iterator[str]:
    """Yield the logical lines. Brackets in strings and comments count: at worst a line is longer than it should be."""
    depth = start = 0
    for match in _BREAK.finditer(text):
        found = match.group()
        if found != "\n":
            depth += 1 if found in "([{" else -1
        elif depth <= 0:
            yield text[start : match.end()]
            start, depth = match.end(), 0
    yield text[start:]


def chained(node: ast.expr) -> list[ast.expr]:
    """Return the operands of a chain of operators of equal precedence without parentheses, none for other nodes."""
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    operands: list[ast.expr] = []
    level = _level(node)
    place = (node.lineno, node.col_offset)
    while isinstance(node, ast.BinOp) and _level(node) is level and (node.lineno, node.col_offset) == place:
        operands.append(node.right)
        node = node.left
    return [node, *reversed(operands)] if operands else []


def _level(node: ast.expr) -> tuple[type[ast.operator], ...] | None:
    return next((level for level in _LEVELS if isinstance(node, ast.BinOp) and isinstance(node.op, level)), None)


@dataclass(frozen=True, slots=True)
class _Chain:
    """One chain: its place in the text, and the places of the operators at which it is cut."""

    text: str
    start: int
    end: int
    cuts: tuple[tuple[int, int], ...]
    """Where the operand before a cut ends, and where the one behind it begins."""
    name: str

    def node(self) -> cst.BaseExpression:
        """Return the balanced tree."""
        starts = [self.start, *(start for _, start in self.cuts)]
        ends = [*(end for end, _ in self.cuts), self.end]
        pieces = [_expression(self.text[start:end]) for start, end in zip(starts, ends, strict=True)]
        return _balanced(pieces, [self.text[end:start] for end, start in self.cuts])


def _chains(text: str) -> list[_Chain]:
    """Return the long chains that lie in no other one, in the order of the text."""
    try:
        tree = parse_python(text)
    except UNPARSABLE:
        return []
    offset = _offsets(text)
    found: list[_Chain] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):  # before Python 3.12 the places of what it holds are not those of the file
            continue
        operands = chained(node) if isinstance(node, (ast.BinOp, ast.BoolOp)) else []
        if isinstance(node, ast.expr) and len(operands) > LONG:
            found.append(_chain(text, offset, node, operands))
        else:
            waiting.extend(operands or ast.iter_child_nodes(node))
    return sorted(found, key=lambda chain: chain.start)


def _offsets(text: str) -> Callable[[int | None, int | None], int]:
    """Return what makes a character offset of a line (from 1) and a column in bytes of UTF-8."""
    lines = [(match.start(), match.group()) for match in _LINE.finditer(text)]

    def offset(line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        start, code = lines[line - 1]
        return start + (column if code.isascii() else len(code.encode()[:column].decode()))

    return offset


def _chain(
    text: str, offset: Callable[[int | None, int | None], int], node: ast.expr, operands: Sequence[ast.expr]
) -> _Chain:
    start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
    cuts = []
    for at in range(_PIECE, len(operands), _PIECE):
        before, behind = operands[at - 1], operands[at]
        gap = offset(before.end_lineno, before.end_col_offset), offset(behind.lineno, behind.col_offset)
        cuts.append(_cut(text, *gap))
    name = f"_{start:0{end - start - 1}d}"
    return _Chain(text, start, end, tuple(cuts), name)


def _cut(text: str, end: int, start: int) -> tuple[int, int]:
    """Return where the operand before an operator ends and the next begins, with the parentheses around each.

    `end` and `start` are those of the operands without parentheses.
    """
    has_operator = False
    at = end
    while at < start:
        match = _GAP.match(text, at)
        assert match is not None, text[at : at + 20]
        at = match.end()
        if match["operator"]:
            has_operator = True
        elif match["bracket"] == ")":
            end = at
        elif match["bracket"] and has_operator:
            return end, match.start()
    return end, start


def _with_names(text: str, chains: Iterable[_Chain]) -> str:
    parts = []
    done = 0
    for chain in chains:
        parts += [text[done : chain.start], chain.name]
        done = chain.end
    return "".join([*parts, text[done:]])


def _expression(piece: str) -> cst.BaseExpression:
    """Parse one piece, which may go over several lines."""
    statement = parse_module(f"({piece})").body[0]
    assert isinstance(statement, cst.SimpleStatementLine)
    line = statement.body[0]
    assert isinstance(line, cst.Expr)
    return line.value.with_changes(lpar=line.value.lpar[1:], rpar=line.value.rpar[:-1])


def _balanced(pieces: Sequence[cst.BaseExpression], joints: Sequence[str]) -> cst.BaseExpression:
    if len(pieces) == 1:
        return pieces[0]
    half = len(pieces) // 2
    joined = cst.parse_expression(f"(a{joints[half - 1]}b)")
    left, right = _balanced(pieces[:half], joints[: half - 1]), _balanced(pieces[half:], joints[half:])
    return joined.with_changes(left=left, right=right, lpar=(), rpar=())


class _Inserter(cst.CSTTransformer):
    """Puts the trees of chains in the place of their names."""

    def __init__(self, nodes: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self._nodes = nodes

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """Put a chain in the place of its name, in the parentheses that stand there."""
        node = self._nodes.get(original_node.value)
        return updated_node if node is None else node.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
