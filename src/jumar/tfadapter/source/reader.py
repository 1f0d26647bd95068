"""`read_script`: the options that a Python file sets, found in its syntax tree; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jumar.base.errors import ScriptError
from jumar.tfadapter.options import UNKNOWN, Kind, Setting, Style
from jumar.tfadapter.source.script import NpuSession, ScriptOptions
from jumar.tfadapter.source.values import Values

CLASSES: dict[str, tuple[Style, tuple[str, ...]]] = {
    "NPURunConfig": ("estimator", ()),
    "DumpConfig": (
        "dump_config",
        ("enable_dump", "dump_path", "dump_step", "dump_mode", "enable_dump_debug", "dump_debug_mode", "dump_data",
         "dump_layer"),
    ),
    "ProfilingConfig": ("profiling_config", ("enable_profiling", "profiling_options")),
    "MemoryConfig": ("memory_config", ("atomic_clean_policy", "static_memory_policy")),
}  # fmt: skip
"""Classes of the adapter -> the style of their arguments, and the names of those that may be given without one."""
_COMPLETING = {
    "npu_config_proto",
    "session_config",
    "set_keras_session_npu_config",
    "npu_run_config_init",
    "init_resource",
}
_FIELDS: tuple[Kind, ...] = ("s", "i", "b", "f")
_OTHER_FIELDS = ("list", "shape", "type", "tensor", "func", "placeholder")
_MOST_CALLS = 50


def read_script(path: Path) -> ScriptOptions:
    """Return what a Python file sets. Raises ScriptError where it cannot be read or is no Python 3."""
    try:
        text = path.read_text("utf-8-sig", errors="replace")
    except OSError as error:
        raise ScriptError(f"{path} cannot be read ({error.strerror}). Name a file that you may read.") from error
    return read_text(text, path)


def read_text(text: str, path: Path) -> ScriptOptions:
    """Return what the text of a Python file sets. Raises ScriptError where it is no Python 3."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ScriptError(
            f"{path}{line}: the file must be valid Python 3 ({error}). Correct it, and run again."
        ) from error
    found = ScriptOptions(path)
    _Reader(found, tree).read()
    found.settings.sort(key=lambda one: one.line or 0)
    return found


class _Reader:
    """Reads one module. A function whose parameters name options is read once for each of its calls."""

    def __init__(self, found: ScriptOptions, tree: ast.Module) -> None:
        self._found = found
        self._tree = tree
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self._calls: dict[str, list[ast.Call]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions:
                self._calls.setdefault(node.func.id, []).append(node)
        self._maps: dict[tuple[str, str], str] = {}
        """Scope and name -> what it stands for: `custom_op.parameter_map`, `…["x"]`, `npu.global_options()`."""
        self._optimizers: dict[tuple[str, str], NpuSession] = {}

    def read(self) -> None:
        module = Values()
        self._bind(self._tree.body, module)
        self._statements(self._tree.body, module, "", ())

    def _bind(self, body: Sequence[ast.stmt], values: Values) -> None:
        """Note the values of names that are assigned in a body, without the functions in it."""
        for node in _own(body):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        values.bind(target.id, values.value(node.value))
                    else:
                        for inner in ast.walk(target):
                            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                                values.bind(inner.id, UNKNOWN)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                values.bind(node.target.id, values.value(node.value))
            elif isinstance(node, (ast.AugAssign, ast.For)) and isinstance(node.target, ast.Name):
                values.bind(node.target.id, UNKNOWN)

    def _statements(
        self, body: Sequence[ast.stmt], values: Values, scope: str, branch: tuple[tuple[int, int], ...]
    ) -> None:
        for node in body:
            self._statement(node, values, scope, branch)

    def _statement(self, node: ast.stmt, values: Values, scope: str, branch: tuple[tuple[int, int], ...]) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, values, scope)
            case ast.ClassDef(body=body):
                inner = Values(values)
                self._bind(body, inner)
                self._statements(body, inner, f"{scope}{node.name}.", branch)
            case ast.If(body=body, orelse=other):
                self._expressions(node.test, values, scope, branch)
                self._statements(body, values, scope, (*branch, (node.lineno, 0)))
                self._statements(other, values, scope, (*branch, (node.lineno, 1)))
            case ast.For():
                self._loop(node, values, scope, branch)
            case ast.While(body=body, orelse=other):
                self._statements([*body, *other], values, scope, branch)
            case ast.With(items=items, body=body):
                for item in items:
                    self._expressions(item.context_expr, values, scope, branch)
                self._statements(body, values, scope, branch)
            case ast.Try(body=body, handlers=handlers, orelse=other, finalbody=last):
                self._statements([*body, *other, *last], values, scope, branch)
                for number, handler in enumerate(handlers, 1):
                    self._statements(handler.body, values, scope, (*branch, (node.lineno, number)))
            case ast.Assign(targets=targets, value=value):
                self._expressions(value, values, scope, branch)
                for target in targets:
                    self._assigned(target, value, values, scope, branch, node.lineno)
            case _:
                self._expressions(node, values, scope, branch)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, values: Values, scope: str) -> None:
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        calls = self._calls.get(node.name, []) if self._has_named_options(node) else []
        each: list[ast.Call | None] = [*calls[:_MOST_CALLS]]
        for call in each or [None]:
            inner = Values(values)
            given = {} if call is None else _arguments(call, names)
            for name in names:
                inner.bind(name, values.value(given[name]) if name in given else UNKNOWN)
            self._bind(node.body, inner)
            place = f"{scope}{node.name}({call.lineno if call is not None else ''})."
            for name, argument in given.items():
                if isinstance(argument, (ast.Name, ast.Attribute)):
                    self._maps[place, name] = self._text(argument, scope)
            self._statements(node.body, inner, place, ())

    def _has_named_options(self, node: ast.AST) -> bool:
        """Tell whether a function sets an option under a name that is no constant, or a value that is a parameter."""
        return any(isinstance(one, ast.Attribute) and one.attr == "parameter_map" for one in ast.walk(node))

    def _loop(self, node: ast.For, values: Values, scope: str, branch: tuple[tuple[int, int], ...]) -> None:
        """Read a loop over a literal dict or list once for each of its items, another loop once."""
        items = self._items(node.iter, values)
        names = _targets(node.target)
        if items is None or names is None or not 0 < len(items) <= _MOST_CALLS:
            self._expressions(node.iter, values, scope, branch)
            self._statements([*node.body, *node.orelse], values, scope, branch)
            return
        for item in items:
            inner = Values(values)
            parts = item if len(names) > 1 and isinstance(item, (list, tuple)) and len(item) == len(names) else [item]
            for name, part in zip(names, parts, strict=False):
                inner.bind(name, part)
            self._statements(node.body, inner, scope, branch)

    def _items(self, node: ast.expr, values: Values) -> list[Any] | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
            known = values.value(node.func.value)
            return list(known.items()) if isinstance(known, dict) else None
        known = values.value(node)
        return list(known) if isinstance(known, (list, dict)) else None

    # --- what an assignment or a call sets

    def _assigned(
        self,
        target: ast.expr,
        value: ast.expr,
        values: Values,
        scope: str,
        branch: tuple[tuple[int, int], ...],
        line: int,
    ) -> None:
        if isinstance(target, ast.Name):
            self._alias(target.id, value, scope)
            return
        if not isinstance(target, (ast.Attribute, ast.Subscript)):
            return
        if isinstance(target, ast.Subscript):
            if self._text(target.value, scope).endswith("environ"):
                self._set("environment", values.value(target.slice), values.value(value), branch, line, "environment")
            return
        owner = self._text(target.value, scope)
        if self._is_option(target.value, scope) and target.attr in (*_FIELDS, *_OTHER_FIELDS):
            self._session_option(target, owner, values, values.value(value), scope, branch, line)
        elif "global_options()" in owner:
            name = f"{owner.rpartition('global_options()')[2].lstrip('.')}.{target.attr}".lstrip(".")
            self._set("npu_device", name, values.value(value), branch, line, "npu_device")
        elif (scope, owner) in self._optimizers and target.attr == "name":
            known = values.value(value)
            self._optimizers[scope, owner].name = known if isinstance(known, str) else None
        elif owner.endswith("rewrite_options") and ast.unparse(value).endswith("OFF"):
            self._switched_off(owner, target.attr)

    def _alias(self, name: str, value: ast.expr, scope: str) -> None:
        text = self._text(value, scope)
        if text.endswith("custom_optimizers.add()"):
            config = text.removesuffix(".graph_options.rewrite_options.custom_optimizers.add()")
            session = NpuSession(group=f"{scope}{name}", line=value.lineno, config=config, name="")
            self._optimizers[scope, name] = session
            self._found.sessions.append(session)
        elif _stands_for_options(text):
            self._maps[scope, name] = text

    def _switched_off(self, owner: str, what: str) -> None:
        for session in self._found.sessions:
            if owner == f"{session.config}.graph_options.rewrite_options":
                session.off.add(what)

    def _session_option(
        self, target: ast.Attribute, owner: str, values: Values, value: Any, scope: str,
        branch: tuple[tuple[int, int], ...], line: int,
    ) -> None:  # fmt: skip
        """Note `….parameter_map[NAME].FIELD = value`."""
        group = owner.partition(".parameter_map")[0]
        index = _index(target.value)
        name = values.value(index) if index is not None else self._name_in(owner)
        kind: Kind = target.attr if target.attr in _FIELDS else "o"
        session = self._optimizers.get((scope, group)) or self._optimizers.get(("", group))
        self._set("session", name, value, branch, line, session.group if session else f"{scope}{group}", kind)

    def _name_in(self, owner: str) -> Any:
        """Return the name in `custom_op.parameter_map['x']`, which an alias stands for."""
        try:
            return ast.literal_eval(owner.partition(".parameter_map[")[2].removesuffix("]"))
        except (ValueError, SyntaxError):
            return UNKNOWN

    def _is_option(self, node: ast.expr, scope: str) -> bool:
        text = self._text(node, scope)
        return ".parameter_map[" in text or text.startswith("parameter_map[")

    def _expressions(self, node: ast.AST, values: Values, scope: str, branch: tuple[tuple[int, int], ...]) -> None:
        for call in [one for one in ast.walk(node) if isinstance(one, ast.Call)]:
            self._call(call, values, scope, branch)

    def _call(self, call: ast.Call, values: Values, scope: str, branch: tuple[tuple[int, int], ...]) -> None:
        name, arguments = _last_name(call.func), call.args
        if name == "partial" and arguments:
            name, arguments = _last_name(arguments[0]), arguments[1:]
        if name in _COMPLETING:
            self._found.completed = True
        if name in CLASSES:
            self._of_class(name, arguments, call, values, scope, branch)
        elif name == "setattr" and len(arguments) == 3 and self._is_option(arguments[0], scope):
            attribute = ast.Attribute(value=arguments[0], attr=str(values.value(arguments[1])))
            owner = self._text(arguments[0], scope)
            self._session_option(attribute, owner, values, values.value(arguments[2]), scope, branch, call.lineno)
        elif name == "CopyFrom" and isinstance(call.func, ast.Attribute) and self._is_option(call.func.value, scope):
            self._copied(call, values, scope, branch)
        elif name in ("putenv", "setdefault") and len(arguments) == 2 and self._is_environment(call.func, scope, name):
            self._set(
                "environment",
                values.value(arguments[0]),
                values.value(arguments[1]),
                branch,
                call.lineno,
                "environment",
            )
        elif name == "update" and self._is_environment(call.func, scope, name):
            known = values.value(arguments[0]) if arguments else {}
            known = known if isinstance(known, dict) else {}
            for key, value in {
                **known,
                **{one.arg: values.value(one.value) for one in call.keywords if one.arg},
            }.items():
                self._set("environment", key, value, branch, call.lineno, "environment")

    def _is_environment(self, node: ast.expr, scope: str, name: str) -> bool:
        return name == "putenv" or (
            isinstance(node, ast.Attribute) and self._text(node.value, scope).endswith("environ")
        )

    def _copied(self, call: ast.Call, values: Values, scope: str, branch: tuple[tuple[int, int], ...]) -> None:
        """Note `….parameter_map[NAME].CopyFrom(AttrValue(b=True))`."""
        assert isinstance(call.func, ast.Attribute)
        inner = call.args[0] if call.args else None
        words = inner.keywords if isinstance(inner, ast.Call) else []
        for word in words:
            if word.arg in _FIELDS:
                attribute = ast.Attribute(value=call.func.value, attr=word.arg)
                owner = self._text(call.func.value, scope)
                self._session_option(attribute, owner, values, values.value(word.value), scope, branch, call.lineno)

    def _of_class(
        self, name: str, arguments: Sequence[ast.expr], call: ast.Call, values: Values, scope: str,
        branch: tuple[tuple[int, int], ...],
    ) -> None:  # fmt: skip
        style, order = CLASSES[name]
        group = f"{scope}{name}:{call.lineno}"
        for key, argument in zip(order, arguments, strict=False):
            self._set(style, key, values.value(argument), branch, argument.lineno, group)
        for word in call.keywords:
            if word.arg is not None:
                self._set(style, word.arg, values.value(word.value), branch, word.value.lineno, group)
                continue
            known = values.value(word.value)
            if isinstance(known, dict):
                for key, value in known.items():
                    self._set(style, key, value, branch, call.lineno, group)
            else:
                self._found.unread.append((call.lineno, f"{name}(**{ast.unparse(word.value)})"))

    def _set(
        self, style: Style, name: Any, value: Any, branch: tuple[tuple[int, int], ...], line: int, group: str,
        kind: Kind | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(name, str):
            if style != "environment":
                self._found.unread.append((line, "an option whose name the source does not tell"))
            return
        if style == "environment":
            from jumar.tfadapter.options import options_of

            if name not in options_of("environment"):
                return
        value = UNKNOWN if isinstance(value, (list, dict)) and style != "aoe" else value
        setting = Setting(style, name, value, kind, self._found.path, line, group, branch)
        if setting not in self._found.settings:
            self._found.settings.append(setting)

    def _text(self, node: ast.expr, scope: str) -> str:
        """Return the source of an expression, its first name replaced by what it stands for."""
        text = ast.unparse(node)
        first = text.split(".")[0].split("[")[0]
        meant = self._maps.get((scope, first)) or self._maps.get(("", first))
        return meant + text[len(first) :] if meant else text


def _stands_for_options(text: str) -> bool:
    """Tell whether an expression is a map of options, one of them, or a part of `global_options()`."""
    ends = text.endswith(("parameter_map", "global_options()", "rewrite_options"))
    part = "global_options()." in text and "(" not in text.rpartition("global_options()")[2]
    return ends or part or ".parameter_map[" in text


def _own(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of its blocks, in order, without those of functions and classes in it."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from _own(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _own(handler.body)


def _arguments(call: ast.Call, names: Sequence[str]) -> dict[str, ast.expr]:
    given = dict(zip(names, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg is not None}


def _targets(node: ast.expr) -> list[str] | None:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return (
        [one.id for one in items if isinstance(one, ast.Name)]
        if all(isinstance(one, ast.Name) for one in items)
        else None
    )


def _index(node: ast.expr) -> ast.expr | None:
    """Return what is between the brackets of `parameter_map[NAME]`."""
    return node.slice if isinstance(node, ast.Subscript) else None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
