"""`note_call`: what a call sets: `NPURunConfig(…)`, `os.environ.update(…)`, `setattr(…)`, `….CopyFrom(…)`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jumar.tfadapter.options import Style
from jumar.tfadapter.source.expressions.nodes import last_name
from jumar.tfadapter.source.expressions.place import Place
from jumar.tfadapter.source.notes import FIELDS, Notes

CLASSES: dict[str, tuple[Style, tuple[str, ...]]] = {
    "NPURunConfig": (
        "estimator",
        ("iterations_per_loop", "profiling_config", "model_dir", "tf_random_seed", "save_summary_steps",
         "save_checkpoints_steps", "save_checkpoints_secs"),
    ),
    "DumpConfig": (
        "dump_config",
        ("enable_dump", "dump_path", "dump_step", "dump_mode", "enable_dump_debug", "dump_debug_mode", "dump_data",
         "dump_layer"),
    ),
    "ProfilingConfig": ("profiling_config", ("enable_profiling", "profiling_options")),
    "MemoryConfig": ("memory_config", ("atomic_clean_policy", "static_memory_policy")),
}  # fmt: skip
"""Classes of the adapter -> the style of their arguments, and the names of those that may be given without one."""
_COMPLETING = frozenset(
    {"npu_config_proto", "session_config", "set_keras_session_npu_config", "npu_run_config_init", "init_resource"}
)
_ENVIRONMENT = frozenset({"putenv", "setdefault", "update"})


def note_call(call: ast.Call, notes: Notes, place: Place) -> None:
    """Note what a call sets; most set nothing."""
    name, arguments = last_name(call.func), call.args
    if name == "partial" and arguments:
        name, arguments = last_name(arguments[0]), arguments[1:]
    name = notes.classes.get(name, name)
    if name in _COMPLETING:
        notes.found.completed = True
    if name in CLASSES:
        _of_class(name, arguments, call, notes, place)
    elif name == "setattr" and len(arguments) == 3:
        _of_setattr(call, notes, place)
    elif name == "CopyFrom" and isinstance(call.func, ast.Attribute):
        _copied(call.func.value, call, notes, place)
    elif name in _ENVIRONMENT and _is_environment(call.func, name, notes, place):
        _of_environment(name, call, notes, place)


def _of_class(name: str, arguments: Sequence[ast.expr], call: ast.Call, notes: Notes, place: Place) -> None:
    style, order = CLASSES[name]
    group = f"{place.scope}{name}:{call.lineno}"
    for key, argument in zip(order, arguments, strict=False):
        value = place.values.value(argument)
        notes.set(style, key, value, place, argument.lineno, group, node=argument)
    for word in call.keywords:
        value = place.values.value(word.value)
        if word.arg is not None:
            notes.set(style, word.arg, value, place, word.value.lineno, group, node=word.value)
        elif isinstance(value, dict):
            for key, one in value.items():
                notes.set(style, key, one, place, call.lineno, group)
        else:
            notes.leave_unread(call.lineno, f"{name}(**{ast.unparse(word.value)})")


def _of_setattr(call: ast.Call, notes: Notes, place: Place) -> None:
    owner, name, value = call.args
    attribute, text = place.values.value(name), notes.text(owner, place.scope)
    if isinstance(attribute, str):
        notes.set_attribute(owner, attribute, value, place, call.lineno)
    elif "global_options()" in text or notes.is_option(owner, place.scope):
        notes.leave_unread(call.lineno, "an option whose name the source does not tell")


def _copied(option: ast.expr, call: ast.Call, notes: Notes, place: Place) -> None:
    """Note `….parameter_map[NAME].CopyFrom(AttrValue(b=True))`."""
    inner = call.args[0] if call.args else None
    if not isinstance(inner, ast.Call) or not notes.is_option(option, place.scope):
        return
    for word in inner.keywords:
        if word.arg in FIELDS:
            notes.set_session(option, word.arg, word.value, place, call.lineno)


def _is_environment(function: ast.expr, name: str, notes: Notes, place: Place) -> bool:
    if name == "putenv":
        return True
    return isinstance(function, ast.Attribute) and notes.text(function.value, place.scope).endswith("environ")


def _of_environment(name: str, call: ast.Call, notes: Notes, place: Place) -> None:
    values = [place.values.value(one) for one in call.args]
    if name != "update":
        if len(values) == 2:
            notes.set("environment", values[0], values[1], place, call.lineno, "environment")
        return
    known = values[0] if values and isinstance(values[0], dict) else {}
    words = {word.arg: place.values.value(word.value) for word in call.keywords if word.arg is not None}
    for key, value in {**known, **words}.items():
        notes.set("environment", key, value, place, call.lineno, "environment")
