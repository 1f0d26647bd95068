"""`Notes`: what a script sets, and what its names stand for, noted while its statements are read."""

from __future__ import annotations

import ast
from typing import Any

from jumar.tfadapter.options import UNKNOWN, Kind, Setting, Style, options_of
from jumar.tfadapter.source.expressions import Flags, Place
from jumar.tfadapter.source.expressions.nodes import dotted_name
from jumar.tfadapter.source.script import NpuSession, ScriptOptions

FIELDS: tuple[Kind, ...] = ("s", "i", "b", "f")
OTHER_FIELDS = ("list", "shape", "type", "tensor", "func", "placeholder")
_ADD = ".graph_options.rewrite_options.custom_optimizers.add()"
_ON = frozenset({"disable_model_pruning"})
"""Rewrites that the NPU needs as they are by default: these off, the others on."""
_KEPT = frozenset({"function_optimization"})


class Notes:
    """What one file sets. Names are followed within a function; a name of the module is known in all of them."""

    def __init__(self, found: ScriptOptions, flags: Flags) -> None:
        self.found = found
        self._flags = flags
        self.classes: dict[str, str] = {}
        """Other names of classes: `Config` after `from … import NPURunConfig as Config`."""
        self._maps: dict[tuple[str, str], str] = {}
        """Scope and name -> what it stands for: `custom_op.parameter_map`, `…["x"]`, `npu.global_options()`."""
        self._optimizers: dict[tuple[str, str], NpuSession] = {}

    # --- names

    def text(self, node: ast.expr, scope: str) -> str:
        """Return the source of an expression, names in it replaced by what they stand for."""
        name = dotted_name(node)
        meant = (self._maps.get((scope, name)) or self._maps.get(("", name))) if name else None
        if meant:
            return meant
        match node:
            case ast.Attribute(value=value, attr=attr):
                return f"{self.text(value, scope)}.{attr}"
            case ast.Subscript(value=value, slice=index):
                return f"{self.text(value, scope)}[{ast.unparse(index)}]"
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]):
                return f"{self.text(value, scope)}.{attr}"
            case ast.Call(func=function, args=[], keywords=[]):
                return f"{self.text(function, scope)}()"
        return ast.unparse(node)

    def name(self, target: ast.expr, value: ast.expr, scope: str) -> None:
        """Note what a name stands for after `target = value`, where it is a part of the options."""
        name, text = dotted_name(target), self.text(value, scope)
        key = ("" if name.startswith("self.") else scope, name)
        if text.endswith("custom_optimizers.add()"):
            group = f"{scope}{name}:{len(self.found.sessions)}"
            session = NpuSession(group, value.lineno, name, config=text.removesuffix(_ADD), name="")
            self._optimizers[key] = session
            self._maps.pop(key, None)
            self.found.sessions.append(session)
        elif (other := self.session(text, scope)) is not None:
            self._optimizers[key] = other
        elif _stands_for_options(text):
            self._maps[key] = text
        else:
            self._maps.pop(key, None)

    def give(self, name: str, argument: ast.expr, caller: str, scope: str) -> None:
        """Note what a parameter stands for in a call."""
        text = self.text(argument, caller)
        owner = text.partition(".parameter_map")[0]
        session = self.session(owner, caller)
        if session is not None:
            self._optimizers[scope, name if owner == text else owner] = session
        if owner != text or session is None:
            self._maps[scope, name] = text

    def session(self, owner: str, scope: str) -> NpuSession | None:
        """Return the session whose optimizer an expression is."""
        return self._optimizers.get((scope, owner)) or self._optimizers.get(("", owner))

    def is_option(self, node: ast.expr, scope: str) -> bool:
        """Tell whether an expression is one option of a session: `custom_op.parameter_map["x"]`."""
        text = self.text(node, scope)
        return ".parameter_map[" in text or text.startswith("parameter_map[")

    # --- settings

    def set_attribute(self, owner: ast.expr, attribute: str, value: ast.expr, place: Place, line: int) -> None:
        """Note `owner.attribute = value`."""
        text = self.text(owner, place.scope)
        if attribute in (*FIELDS, *OTHER_FIELDS) and self.is_option(owner, place.scope):
            self.set_session(owner, attribute, value, place, line)
        elif "global_options()" in text:
            name = f"{text.rpartition('global_options()')[2].lstrip('.')}.{attribute}".lstrip(".")
            self.set("npu_device", name, place.values.value(value), place, line, "npu_device", node=value)
        elif attribute == "name" and (session := self.session(text, place.scope)) is not None:
            known = place.values.value(value)
            session.name = known if isinstance(known, str) else None
        elif text.endswith("rewrite_options"):
            self._rewrite(text, attribute, value, line)

    def set_session(self, option: ast.expr, field: str, value: ast.expr, place: Place, line: int) -> None:
        """Note `….parameter_map[NAME].FIELD = value`."""
        owner = self.text(option, place.scope)
        group = owner.partition(".parameter_map")[0]
        named = isinstance(option, ast.Subscript)
        name = place.values.value(option.slice) if isinstance(option, ast.Subscript) and named else _name_in(owner)
        kind: Kind = field if field in FIELDS else "o"
        session = self.session(group, place.scope)
        self.set(
            "session", name, place.values.value(value), place, line,
            session.group if session else f"{place.scope}{group}", kind, value,
        )  # fmt: skip

    def set(
        self, style: Style, name: Any, value: Any, place: Place, line: int, group: str, kind: Kind | None = None,
        node: ast.expr | None = None,
    ) -> None:  # fmt: skip
        """Note one setting; `node` is its value's expression. A variable that the table lacks is another program's."""
        if not isinstance(name, str):
            if style != "environment":
                self.leave_unread(line, "an option whose name the source does not tell")
            return
        if style == "environment" and name not in options_of("environment"):
            return
        text = ast.unparse(node) if node is not None else ""
        by_default = place.values.with_flags(self._flags).value(node) if value is UNKNOWN else UNKNOWN
        setting = Setting(
            style, name, _plain(value), kind, self.found.path, line, f"{self.found.path}:{group}", place.branch,
            default=_plain(by_default), text=text,
        )  # fmt: skip
        if setting not in self.found.settings:
            self.found.settings.append(setting)

    def leave_unread(self, line: int, what: str) -> None:
        """Note what is set under a name that the source does not tell."""
        if (line, what) not in self.found.unread:
            self.found.unread.append((line, what))

    def _rewrite(self, owner: str, what: str, value: ast.expr, line: int) -> None:
        """Note `config.graph_options.rewrite_options.remapping = RewriterConfig.OFF`."""
        text = ast.unparse(value)
        for session in self.found.sessions:
            if owner == f"{session.config}.graph_options.rewrite_options":
                if text.endswith("OFF"):
                    session.off.add(what)
                if (what in _ON and text == "True") or (what in _KEPT and text.endswith("OFF")):
                    session.switched[what] = line


def _plain(value: Any) -> Any:
    """Return a value that an option may have; a list or dict is not followed further."""
    return UNKNOWN if isinstance(value, (list, tuple, dict)) else value


def _stands_for_options(text: str) -> bool:
    """Tell whether an expression is a map of options, one of them, or a part of `global_options()`."""
    ends = text.endswith(("parameter_map", "global_options()", "rewrite_options"))
    part = "global_options()." in text and "(" not in text.rpartition("global_options()")[2]
    return ends or part or ".parameter_map[" in text


def _name_in(owner: str) -> Any:
    """Return the name in `custom_op.parameter_map['x']`, which an alias stands for."""
    try:
        return ast.literal_eval(owner.partition(".parameter_map[")[2].removesuffix("]"))
    except (ValueError, SyntaxError):
        return UNKNOWN
