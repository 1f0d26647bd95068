"""Sessions of a script and where their configurations come from: `sessions`, `origin`, `prepares`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from jumar.convert.rules.subject.names import assigned_values
from jumar.convert.rules.tensorflow.program.change import has_stars, keyword_for
from jumar.convert.rules.tensorflow.program.names import api, calls, name_of, references
from jumar.convert.syntax.scopes import is_named, last_name
from jumar.convert.syntax.source import Reference, Source
from jumar.convert.syntax.tree import descendants

SESSIONS: Mapping[str, int] = {
    "Session": 2,
    "InteractiveSession": 2,
    "train.MonitoredTrainingSession": 9,
    "train.SingularMonitoredSession": 3,
    "train.ChiefSessionCreator": 2,
    "train.WorkerSessionCreator": 2,
}
"""What makes a session -> the position of its parameter `config`."""
METHODS: Mapping[str, int] = {"managed_session": 1, "prepare_or_wait_for_session": 1}
"""Methods of a Supervisor that make a session -> the position of `config`."""
PROTO = "ConfigProto"
OPTIMIZER = "NpuOptimizer"

Origin = Literal["none", "built here", "prepared", "default None", "elsewhere", "stars"]


@dataclass(frozen=True, slots=True, eq=False)
class SessionCall:
    """A call that makes a session; `config` is the argument that it passes."""

    name: str
    call: cst.Call
    reference: Reference | None
    config: cst.Arg | None


def sessions(source: Source) -> Iterator[SessionCall]:
    """Yield every call that makes a session."""
    for name, reference, call in calls(source, *SESSIONS):
        yield SessionCall(name, call, reference, keyword_for(call, SESSIONS[name], "config"))
    if not any(api(found.name) == "train.Supervisor" for found in references(source)):
        return
    for node in source.methods:
        call_of = source.called(node)
        if node.attr.value in METHODS and call_of is not None:
            name = node.attr.value
            yield SessionCall(name, call_of, None, keyword_for(call_of, METHODS[name], "config"))


def origin(source: Source, session: SessionCall, makers: Set[str] = frozenset()) -> Origin:
    """Tell where the configuration of a session comes from; `makers` are functions of the project that make some."""
    if has_stars(session.call):
        return "stars"
    if session.config is None or is_named(session.config.value, "None"):
        return "none"
    value = session.config.value
    if is_proto(source, value):
        return "built here"
    found = _resolved(source, value, 0)
    return "prepared" if found == "elsewhere" and _is_made_by(source, value, makers) else found


def _is_made_by(source: Source, value: cst.BaseExpression, makers: Set[str]) -> bool:
    """Tell whether a function of the project makes a configuration: called here, or where the name is assigned."""
    if isinstance(value, cst.Call):
        return last_name(value.func) in makers
    name = last_name(value)
    return bool(name) and any(
        isinstance(each, cst.Call) and last_name(each.func) in makers for each in assigned_values(source, name)
    )


def is_proto(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether an expression makes a ConfigProto."""
    return isinstance(node, cst.Call) and api(name_of(source, node.func) or "") == PROTO


def makes_proto(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a ConfigProto is made somewhere in `node`; it is prepared where it is made."""
    return any(is_proto(source, found) for found in descendants(node))


def _resolved(source: Source, value: cst.BaseExpression, depth: int) -> Origin:
    if depth > 3 or _says_npu(value):
        return "prepared" if depth <= 3 else "elsewhere"
    if makes_proto(source, value) or _calls_maker(source, value):
        return "prepared"
    if isinstance(value, cst.Name):
        return _of_name(source, value, depth)
    if isinstance(value, cst.Attribute):
        made = [_resolved(source, each, depth + 1) for each in assigned_values(source, value.attr.value)]
        return "prepared" if "prepared" in made else "elsewhere"
    return "elsewhere"


def _says_npu(value: cst.BaseExpression) -> bool:
    """Tell whether a function of the adapter, or one named after the NPU, gives the configuration."""
    return isinstance(value, cst.Call) and "npu" in last_name(value.func).lower()


def _calls_maker(source: Source, value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call):
        return False
    name = last_name(value.func)
    return any(
        function.name.value == name and makes_proto(source, function) for function in source.nodes(cst.FunctionDef)
    )


def _of_name(source: Source, value: cst.Name, depth: int) -> Origin:
    bindings = source.scope(value).bindings_of(value.value)
    found: list[Origin] = []
    for binding in bindings:
        if binding.kind == "assign" and binding.value is not None:
            found.append(_resolved(source, binding.value, depth + 1))
        elif binding.kind == "parameter" and isinstance(binding.node, cst.Param):
            found.append(_of_parameter(source, binding.node, depth))
    if "default None" in found and len(bindings) == 1:
        return "default None"
    return "prepared" if "prepared" in found else "elsewhere"


def _of_parameter(source: Source, parameter: cst.Param, depth: int) -> Origin:
    if parameter.default is not None and is_named(parameter.default, "None"):
        return "default None"
    function = source.enclosing(parameter, cst.FunctionDef)
    if function is None:
        return "elsewhere"
    given = [
        arg.value
        for call in source.nodes(cst.Call)
        if last_name(call.func) == function.name.value
        for arg in call.args
        if (arg.keyword is not None and arg.keyword.value == parameter.name.value) or arg.keyword is None
    ]
    made = [_resolved(source, value, depth + 1) for value in given if not isinstance(value, cst.BaseString)]
    return "prepared" if "prepared" in made else "elsewhere"


def prepares(source: Source, node: cst.CSTNode, target: str) -> bool:
    """Tell whether the function around `node` adds a custom optimizer to the configuration written `target`."""
    here = source.enclosing(node, cst.FunctionDef)
    wanted = f"{target}.graph_options.rewrite_options.custom_optimizers"
    return any(
        source.code(found) == wanted and source.enclosing(found, cst.FunctionDef) is here
        for found in source.nodes(cst.Attribute)
        if found.attr.value == "custom_optimizers"
    )


def serves_estimator_only(source: Source, target: cst.BaseExpression) -> bool:
    """Tell whether a configuration is only given to RunConfig, which adds what the NPU needs itself."""
    if not isinstance(target, cst.Name):
        return False
    scope = source.scope(target)
    reads = [
        name
        for name in source.nodes(cst.Name)
        if name.value == target.value and name is not target and name in source.tree.scopes
        if source.scope(name).home(name.value) is scope.home(target.value) and name not in source.tree.stored
    ]
    kinds = {_kind_of_read(source, name) for name in reads}
    return "estimator" in kinds and "other" not in kinds


def _kind_of_read(source: Source, name: cst.Name) -> str:
    parent = source.parent(name)
    if isinstance(parent, cst.Arg):
        return "estimator" if parent.keyword is not None and parent.keyword.value == "session_config" else "other"
    return "setting" if isinstance(parent, cst.Attribute) else "other"
