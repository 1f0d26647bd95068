"""The rule file of the documents: `ArgsModifyRule`, `FuncNameModifyRule`, `ModuleNameModifyRule`.

A function's name with a dot is its qualified name. A name without one means every function or method
that is called so, whatever it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jumar.migrate.user_rules.fields import Table
from jumar.migrate.user_rules.model import Argument, RemoveArgument, SetArgument, UserRule
from jumar.migrate.user_rules.patterns import Pattern, is_dotted_name

_DOTTED = "must be a name such as func or package.module.func"


def seed_rules(rules: Table) -> Iterator[UserRule]:
    """Yield the rules in the order of the document. Raises InputError where it is malformed."""
    rules.only(*_KINDS)
    for kind in rules.values:
        for entry in rules.tables(kind):
            yield _KINDS[kind](entry)


def _function_patterns(name: str) -> tuple[Pattern, ...]:
    if "." in name:
        return (Pattern(text=name),)
    return Pattern(text=f"**.{name}"), Pattern(text=f".{name}")


def _arguments(entry: Table) -> UserRule:
    entry.only("func_name", "arg_idx", "arg_new")
    function = entry.word("func_name", _DOTTED, is_dotted_name)
    argument = Argument(position=entry.count("arg_idx"))
    removes = entry.text("arg_new").strip() == ""
    change = (
        RemoveArgument(argument=argument)
        if removes
        else SetArgument(argument=argument, value=entry.expression("arg_new").strip())
    )
    return UserRule(
        name=_name(entry, "ArgsModifyRule"),
        place=entry.place,
        patterns=_function_patterns(function),
        called=True,
        functions=True,
        changes=(change,),
    )


def _function(entry: Table) -> UserRule:
    entry.only("old_name", "new_name")
    old = entry.word("old_name", _DOTTED, is_dotted_name)
    new = entry.word("new_name", _DOTTED, is_dotted_name)
    if "." in new and "." not in old:
        entry.fail("new_name", "must be a name without a dot where old_name is one")
    return UserRule(
        name=_name(entry, "FuncNameModifyRule"),
        place=entry.place,
        patterns=_function_patterns(old),
        called=True,
        functions=True,
        rename=new,
    )


def _module(entry: Table) -> UserRule:
    entry.only("old_name", "new_name", "parent_module")
    old, new = entry.name("old_name"), entry.name("new_name")
    parent = entry.word("parent_module", "must be the full name of the parent module, such as torch", is_dotted_name)
    return UserRule(
        name=_name(entry, "ModuleNameModifyRule"),
        place=entry.place,
        patterns=(Pattern(text=f"{parent}.{old}"),),
        rename=f"{parent}.{new}",
    )


def _name(entry: Table, kind: str) -> str:
    return entry.place.removeprefix("rules.") or kind


_KINDS: dict[str, Callable[[Table], UserRule]] = {
    "ArgsModifyRule": _arguments,
    "FuncNameModifyRule": _function,
    "ModuleNameModifyRule": _module,
}
