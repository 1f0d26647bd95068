"""Which TensorFlow a file is written for, and what is imported from the adapter for it: `style_of`, `Adapter`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import libcst as cst

from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.names import V1_ONLY, api, horovod, is_v1, name_of, references
from jumar.convert.syntax.source import Source, imported_name
from jumar.convert.syntax.tree import descendants

Style = Literal["v1", "v2"]
_V2_ONLY = frozenset({"random.set_seed", "keras.utils.set_random_seed", "function", "GradientTape", "Module"})


def style_of(context: Context) -> Style:
    """Return `v1` for a file that uses what TensorFlow 2 has only in `tf.compat.v1`, else `v2`.

    A file that uses nothing of only one of them goes by the other files of its project.
    """
    own = context.source.derived(_style)
    return own or ("v1" if context.project.tensorflow_1 else "v2")


def _style(source: Source) -> Style | None:
    names = [found.name for found in references(source)]
    if any(is_v1(name) for name in names if (api(name) or "").split(".")[0] != "logging"):
        return "v1"
    if any(is_v1(imported_name(alias, source.parent(alias)) or "") for alias in source.nodes(cst.ImportAlias)):
        return "v1"
    public = [api(name) or "" for name in names]
    if any(name in V1_ONLY or name.startswith(("contrib.", "estimator.")) for name in public):
        return "v1"
    return "v2" if any(name in _V2_ONLY for name in public) else None


@dataclass(frozen=True, slots=True)
class Adapter:
    """The packages of the adapter that a file imports from.

    `npu_bridge` for TensorFlow 1.15; `npu_device.compat.v1` where TensorFlow 2.6 runs as TensorFlow 1 (`-c`).
    """

    compat: bool

    def name(self, name: str) -> str:
        """Return the import of one name of `npu_init`."""
        return f"from {self._package}.npu_init import {name}"

    @property
    def _package(self) -> str:
        return "npu_device.compat.v1" if self.compat else "npu_bridge"


def adapter(context: Context) -> Adapter:
    """Return where the names for a file of TensorFlow 1 come from."""
    return Adapter(context.options.tensorflow.compat)


DEVICE_IMPORT = "import npu_device"
"""What a file of TensorFlow 2 imports."""


def is_entry(context: Context) -> bool:
    """Tell whether a file starts a program: the one given with `-m`, or one that has a main guard or trains at once."""
    chosen = context.options.tensorflow.main
    if chosen:
        return context.source.path.replace("\\", "/") == chosen
    return has_main_guard(context.source) or trains_at_once(context.source)


def has_main_guard(source: Source) -> bool:
    """Tell whether the module has an `if __name__ == "__main__"`."""
    return any(
        isinstance(statement, cst.If) and "__name__" in source.code(statement.test) for statement in source.module.body
    )


_IDLE = frozenset(
    {"", "test", "io", "gfile", "logging", "flags", "app", "compat", "version", "errors", "config", "get_logger"}
)
"""Parts of TensorFlow that compute nothing."""


def wants_device(context: Context) -> bool:
    """Tell whether a script of TensorFlow 2 begins here and does not open the NPU yet."""
    source = context.source
    if style_of(context) != "v2" or not is_entry(context):
        return False
    if not any((api(found.name) or "").partition(".")[0] not in _IDLE for found in references(source)):
        return False
    return not any(
        node.attr.value == "as_default" and ".open(" in source.code(node) for node in source.nodes(cst.Attribute)
    )


_TRAINS = frozenset({"fit", "fit_generator", "train_on_batch", "train", "run", "apply_gradients", "minimize"})


def trains_at_once(source: Source) -> bool:
    """Tell whether statements of the module itself, and not of its functions, train or start a session."""
    return any(_is_at_module(source, call) and _trains(source, call) for call in source.nodes(cst.Call))


def _is_at_module(source: Source, node: cst.CSTNode) -> bool:
    return not any(isinstance(around, (cst.FunctionDef, cst.ClassDef, cst.Lambda)) for around in source.ancestors(node))


def _trains(source: Source, call: cst.Call) -> bool:
    name = name_of(source, call.func) or ""
    public = api(name)
    if public is not None:
        return public in ("Session", "app.run", "train.MonitoredTrainingSession", "GradientTape")
    if horovod(name) == "init":
        return True
    if isinstance(call.func, cst.Name):
        return _runs_training(source, call.func)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _TRAINS


def _runs_training(source: Source, called: cst.Name) -> bool:
    """Tell whether a function of this file, called by its name, trains."""
    functions = [binding.node for binding in source.scope(called).bindings_of(called.value)]
    return any(
        isinstance(function, cst.FunctionDef) and isinstance(found.func, cst.Attribute)
        and (found.func.attr.value in _TRAINS or found.func.attr.value in ("Session", "GradientTape"))
        for function in functions
        for found in descendants(function)
        if isinstance(found, cst.Call)
    )  # fmt: skip
