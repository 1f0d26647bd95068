"""Changes arguments of calls: sets, adds, removes, renames and reorders them, and replaces text in them."""

from __future__ import annotations

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.context import has_star, keyword, last_argument, renamed
from jumar.convert.rules.user.rewriting.draft import Draft
from jumar.convert.syntax.source import Source
from jumar.convert.user_rules.model import (
    AddArgument,
    Argument,
    Change,
    RemoveArgument,
    RenameKeyword,
    ReorderArguments,
    ReplaceText,
    SetArgument,
)

_ACTS = (cst.Call, cst.Await, cst.NamedExpr, cst.Yield)
"""What may do something when it is evaluated."""


class Unclear(Exception):
    """It is not known which argument is meant; the message says why."""


def change_call(source: Source, call: cst.Call, change: Change, draft: Draft) -> None:
    """Add to `draft` what `change` makes of a call, or the reason why it cannot be made."""
    try:
        if isinstance(change, SetArgument):
            _set(source, call, change, draft)
        elif isinstance(change, AddArgument):
            _add(source, call, change, draft)
        elif isinstance(change, RemoveArgument):
            _remove(source, call, change, draft)
        elif isinstance(change, RenameKeyword):
            _rename(source, call, change, draft)
        elif isinstance(change, ReplaceText):
            _replace_text(source, call, change, draft)
        else:
            _reorder(source, call, change, draft)
    except Unclear as error:
        draft.refused(str(error))


def find(call: cst.Call, argument: Argument) -> cst.Arg | None:
    """Return the argument that is meant, None when it is not passed. Raises Unclear when that cannot be told."""
    named = keyword(call, argument.name) if argument.name is not None else None
    if named is not None:
        return named
    if argument.position is not None:
        positional = _positional(call)
        if argument.position < len(positional):
            return positional[argument.position]
        if has_star(call, "*"):
            raise Unclear(f"{argument} may be inside the unpacked `*`")
        if argument.name is None and any(arg.keyword is not None for arg in call.args):
            raise Unclear(f"{argument} may be passed by keyword; name the keyword in the rule")
    if has_star(call, "**"):
        raise Unclear(f"{argument} may be inside the unpacked `**`")
    return None


def _positional(call: cst.Call) -> list[cst.Arg]:
    """Return the positional arguments up to the first unpacked one."""
    found: list[cst.Arg] = []
    for arg in call.args:
        if arg.star or arg.keyword is not None:
            break
        found.append(arg)
    return found


def _set(source: Source, call: cst.Call, change: SetArgument, draft: Draft) -> None:
    arg = find(call, change.argument)
    if arg is None or source.code(arg.value) == change.value:
        return
    _check_dropped(source, arg.value, draft)
    draft.replacements.append(Replacement(*source.outer_span(arg.value), change.value))


def _add(source: Source, call: cst.Call, change: AddArgument, draft: Draft) -> None:
    wanted = change.argument
    if find(call, wanted) is not None:
        return
    if has_star(call, "*") and wanted.position is not None:
        raise Unclear(f"{wanted} may be inside the unpacked `*`")
    if len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp) and not call.args[0].value.lpar:
        raise Unclear("its argument is a generator without parentheses")
    if wanted.name is not None:
        draft.replacements.append(last_argument(source, call, f"{wanted.name}={change.value}"))
        return
    positional = _positional(call)
    if len(positional) != wanted.position:
        raise Unclear(f"{wanted} cannot be passed before the ones in front of it")
    if len(positional) < len(call.args):
        at = source.span(call.args[len(positional)])[0]
        draft.replacements.append(Replacement(at, at, f"{change.value}, "))
    else:
        draft.replacements.append(last_argument(source, call, change.value))


def _remove(source: Source, call: cst.Call, change: RemoveArgument, draft: Draft) -> None:
    arg = find(call, change.argument)
    if arg is None:
        return
    _check_dropped(source, arg.value, draft)
    if arg.keyword is None and any(later.keyword is None for later in call.args[call.args.index(arg) + 1 :]):
        later = [item for item in call.args if item.keyword is None][-1]
        if later.star:
            raise Unclear("an unpacked `*` behind it would move up")
    start, end = _removal(source, call, call.args.index(arg))
    if "#" in source.text.text[start:end]:
        draft.risky = "a comment beside the argument would go"
    draft.replacements.append(Replacement(start, end, ""))


def _removal(source: Source, call: cst.Call, index: int) -> tuple[int, int]:
    """Return what goes with an argument: it and the comma behind it, of the last one that before it."""
    start, end = source.span(call.args[index])
    if index + 1 < len(call.args):
        return start, source.span(call.args[index + 1])[0]
    if index:
        return source.outer_span(call.args[index - 1].value)[1], source.outer_span(call.args[index].value)[1]
    return start, end


def _rename(source: Source, call: cst.Call, change: RenameKeyword, draft: Draft) -> None:
    arg = keyword(call, change.old)
    if arg is None or arg.keyword is None:
        if has_star(call, "**"):
            raise Unclear(f'argument "{change.old}" may be inside the unpacked `**`')
        return
    if keyword(call, change.new) is not None:
        raise Unclear(f'argument "{change.new}" is passed already')
    draft.replacements.append(renamed(source, arg.keyword, change.new))


def _replace_text(source: Source, call: cst.Call, change: ReplaceText, draft: Draft) -> None:
    arg = find(call, change.argument)
    if arg is None:
        return
    start, end = source.outer_span(arg.value)
    for first, body in _texts(source):
        if not start <= first <= end:
            continue
        at = body.find(change.old)
        while at >= 0:
            draft.replacements.append(Replacement(first + at, first + at + len(change.old), change.new))
            at = body.find(change.old, at + len(change.old))


def _texts(source: Source) -> list[tuple[int, str]]:
    """Return where the text of each string literal starts, and the text as it is written."""
    found = []
    for node in source.nodes(cst.SimpleString):
        head = len(node.prefix) + len(node.quote)
        found.append((source.span(node)[0] + head, node.value[head : -len(node.quote)]))
    found += [(source.span(node)[0], node.value) for node in source.nodes(cst.FormattedStringText)]
    return found


def _reorder(source: Source, call: cst.Call, change: ReorderArguments, draft: Draft) -> None:
    positional = _positional(call)
    if len(positional) < len(change.order):
        raise Unclear(f"it does not pass {len(change.order)} arguments by position")
    for index, origin in enumerate(change.order):
        if index == origin:
            continue
        old, new = positional[index].value, positional[origin].value
        if _acts(source, old):
            draft.risky = "an argument with a call in it would be evaluated at another time"
        start, end = source.outer_span(new)
        draft.replacements.append(Replacement(*source.outer_span(old), source.text.text[start:end]))


def _check_dropped(source: Source, value: cst.BaseExpression, draft: Draft) -> None:
    if _acts(source, value):
        draft.risky = "an argument with a call in it would not be evaluated any more"


def _acts(source: Source, value: cst.BaseExpression) -> bool:
    start, end = source.outer_span(value)
    return any(start <= source.span(node)[0] < end for node in source.nodes(*_ACTS))
