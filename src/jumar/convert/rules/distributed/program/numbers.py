"""Replaces fixed device numbers by the number of the rank."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.convert.model.edits import Replacement
from jumar.convert.rules.distributed.program.change import Change, around, starts_line
from jumar.convert.rules.distributed.program.training import Unclear
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.devices import place_of
from jumar.convert.syntax.literals import Literal, literals
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

_NUMBERED = re.compile(r"(?:cuda|npu):(\d+)")
_OPEN = re.compile(r"(?:cuda|npu):(?:\{\}|\{0\}|%[sdi])?")
_TAKES_NUMBER = frozenset({"torch.cuda.set_device", "torch.cuda.device", "torch.npu.set_device"})
_HELPER = frozenset({"local_index"})


def changes(context: Context) -> Iterator[Change]:
    """Yield a change for each place that names a device by number. Raises Unclear for several of them."""
    source = context.source
    numbers: set[str] = set()
    for text in literals(source):
        match = _NUMBERED.fullmatch(text.body) if text.num_fields == 0 else None
        if match is not None and place_of(source, text.node).certainty == "device" and not _is_key(source, text):
            numbers.add(match.group(1))
            yield _literal(context, text, match.group(1))
        elif _OPEN.fullmatch(text.body):
            yield from _filled(source, text)
    for call in source.nodes(cst.Call):
        number = _number_argument(source, call)
        if number is not None:
            if isinstance(number, cst.Integer):
                numbers.add(number.value)
            yield _wrapped(source, number)
    if len(numbers) > 1:
        raise Unclear(
            f"it uses several devices by number ({', '.join(sorted(numbers))}), as a model spread over them does"
        )
    yield from _visible(source)


def _is_key(source: Source, text: Literal) -> bool:
    """Tell whether the literal says where a checkpoint came from (`map_location={'cuda:1': 'cuda:0'}`)."""
    return isinstance(source.parent(text.node), cst.DictElement)


def _literal(context: Context, text: Literal, number: str) -> Change:
    source = context.source
    quote = text.node.quote if isinstance(text.node, cst.SimpleString) else '"'
    word = context.dialect.device_word(quote)
    word = word[len(quote) : -len(quote)] if word.startswith(quote) else f"{{{word}}}"
    own = "LOCAL_DEVICE" if number == "0" else f"f{quote}{word}:{{local_index({number})}}{quote}"
    return Change(
        span=source.span(text.node),
        message=f"{source.code(text.node)} is one device for all ranks; each has its own.",
        replacements=(Replacement(*source.span(text.node), own),),
        helpers=_HELPER if number != "0" else frozenset(),
    )


def _filled(source: Source, text: Literal) -> Iterator[Change]:
    """Yield the change of the number that is put into a device's name: f-string, format, `%` or concatenation."""
    node: cst.CSTNode = text.node
    if isinstance(node, cst.FormattedString):
        fields = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
        if len(fields) == 1 and text.is_indexed:
            yield _wrapped(source, fields[0].expression)
        return
    parent = source.parent(node)
    if isinstance(parent, cst.Attribute) and parent.attr.value == "format":
        call = source.called(parent)
        if call is not None and len(call.args) == 1:
            yield _wrapped(source, call.args[0].value)
    elif isinstance(parent, cst.BinaryOperation) and parent.left is node:
        number = parent.right
        if isinstance(number, cst.Call) and source.qualified(number.func) == "builtins.str" and len(number.args) == 1:
            number = number.args[0].value
        if not isinstance(number, cst.Tuple):
            yield _wrapped(source, number)


def _number_argument(source: Source, call: cst.Call) -> cst.BaseExpression | None:
    """Return the device number a call is given: `x.cuda(0)`, `set_device(gpu)`, `torch.device('cuda', 1)`."""
    name = source.qualified(call.func) or ""
    positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if name == "torch.device":
        return positional[1] if len(positional) == 2 else None
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name not in _TAKES_NUMBER and not (method in ("cuda", "npu") and not name.startswith("torch.")):
        return None
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "device"]
    found = next(iter((*positional, *named)), None)
    if found is None or isinstance(found, (cst.SimpleString, cst.FormattedString, cst.Call, cst.BinaryOperation)):
        return None
    if is_named(found, "None", "True", "False"):
        return None
    return found


def _wrapped(source: Source, number: cst.BaseExpression) -> Change:
    return Change(
        span=source.outer_span(number),
        message=f"Device `{source.code(number)}` would be the same for all ranks; each has its own.",
        replacements=around(source, number, "local_index("),
        helpers=_HELPER,
    )


def _visible(source: Source) -> Iterator[Change]:
    """Yield changes for assignments that make only some devices visible to the process."""
    for assign in source.nodes(cst.Assign):
        target = assign.targets[0].target
        if not isinstance(target, cst.Subscript) or source.qualified(target.value) != "os.environ":
            continue
        if "VISIBLE_DEVICES" not in source.code(target):
            continue
        line = source.parent(assign)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and starts_line(source, assign)
        if not alone:
            raise Unclear(
                "it sets the visible devices in the middle of a line", assign, "Leave that to the command line."
            )
        at = source.span(assign)[0]
        yield Change(
            span=(at, at),
            message="Which devices are visible is the launcher's choice; without it, the script's own.",
            replacements=(Replacement(at, at, 'if "LOCAL_RANK" not in os.environ: '),),
            severity=Severity.INFO,
        )
