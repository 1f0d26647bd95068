"""`Flags`: what a program's command line gives by default: `argparse` and `tf.app.flags`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jumar.tfadapter.options import UNKNOWN
from jumar.tfadapter.source.expressions.nodes import dotted_name, last_name, pairs_of

_PARSING = frozenset({"parse_args", "parse_known_args"})


@dataclass
class Flags:
    """The names that hold what was parsed (`args`, `FLAGS`), and each flag's default."""

    holders: set[str] = field(default_factory=lambda: {"FLAGS", "flags.FLAGS"})
    defaults: dict[str, Any] = field(default_factory=dict)

    def of(self, name: str) -> Any:
        """Return the default of `args.mode`, or UNKNOWN."""
        holder, _, flag = name.rpartition(".")
        return self.defaults.get(flag, UNKNOWN) if holder in self.holders else UNKNOWN


def flags_of(tree: ast.Module, value: Callable[[ast.expr | None], Any]) -> Flags:
    """Return the flags that a module defines. One that is defined twice with two defaults is not known."""
    found = Flags()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _note_holder(target, node.value, found)
        elif isinstance(node, ast.Call):
            name = _flag_name(node)
            if name:
                default = value(_default(node))
                known = found.defaults.get(name, default)
                found.defaults[name] = default if type(known) is type(default) and known == default else UNKNOWN
    return found


def _note_holder(target: ast.expr, given: ast.expr, found: Flags) -> None:
    if isinstance(target, ast.Tuple) and isinstance(given, ast.Call):
        target = target.elts[0]  # args, unknown = parser.parse_known_args()
    for one, other in pairs_of(target, given):
        is_parsed = isinstance(other, ast.Call) and last_name(other.func) in _PARSING
        if dotted_name(one) and (is_parsed or dotted_name(other).endswith("FLAGS")):
            found.holders.add(dotted_name(one))


def _flag_name(call: ast.Call) -> str:
    """Return `mode` of `add_argument("-m", "--mode")` and `DEFINE_string("mode", …)`; empty for other calls."""
    function = last_name(call.func)
    texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if function == "add_argument":
        named = [word.value for word in call.keywords if word.arg == "dest"]
        if named:
            return str(named[0].value) if isinstance(named[0], ast.Constant) else ""
        long = [text for text in texts if text.startswith("--")]
        return long[0].lstrip("-").replace("-", "_") if long else ""
    return texts[0] if function.startswith("DEFINE_") and texts else ""


def _default(call: ast.Call) -> ast.expr | None:
    """Return the expression of a flag's default. None, which is not known, where there is none."""
    for word in call.keywords:
        if word.arg == "default":
            return word.value
    if last_name(call.func) == "add_argument":
        return ast.Constant(value=False) if _is_switch(call) else None
    return call.args[1] if len(call.args) > 1 else None


def _is_switch(call: ast.Call) -> bool:
    return any(
        word.arg == "action" and isinstance(word.value, ast.Constant) and word.value.value == "store_true"
        for word in call.keywords
    )
