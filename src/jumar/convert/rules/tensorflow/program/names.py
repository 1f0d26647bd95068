"""Names of TensorFlow and Horovod whatever they are imported as: `api`, `uses`, `module_code`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from jumar.convert.syntax.scopes import Scope
from jumar.convert.syntax.source import Reference, Source

_ROOTS = (
    "tensorflow.compat.v1.compat.v1", "tensorflow.compat.v1", "tensorflow.compat.v2", "tensorflow._api.v1",
    "tensorflow_core", "tensorflow",
)  # fmt: skip
_INNER: Mapping[str, str] = {
    "python.keras": "keras",
    "core.protobuf.config_pb2": "",
    "python.client.session": "",
    "python.training.monitored_session": "train",
    "python.estimator.estimator": "estimator",
    "python.framework.ops": "",
}
"""Modules inside TensorFlow that scripts import from, with the public module that offers the same names."""


def api(name: str) -> str | None:
    """Return `train.AdamOptimizer` for `tensorflow.compat.v1.train.AdamOptimizer`; None for a name of another package.

    The module itself is the empty text. `tf_keras.Model` is `keras.Model`.
    """
    if name == "tf_keras" or name.startswith("tf_keras."):
        return name[3:]
    for root in _ROOTS:
        if name == root:
            return ""
        if name.startswith(f"{root}."):
            return _public(name[len(root) + 1 :])
    return None


def _public(rest: str) -> str:
    for inner, outer in _INNER.items():
        if rest == inner or rest.startswith(f"{inner}."):
            return ".".join(part for part in (outer, rest[len(inner) + 1 :]) if part)
    return rest


def is_v1(name: str) -> bool:
    """Tell whether a qualified name is one of `tf.compat.v1`."""
    return "compat.v1" in name or name.startswith("tensorflow._api.v1")


def references(source: Source) -> tuple[Reference, ...]:
    """Return every reference to TensorFlow or Horovod, each place once.

    A name with two meanings is certain where both are the same public name: `try: import tensorflow.compat.v1 as tf`,
    `except ImportError: import tensorflow as tf`.
    """
    return source.derived(_references)


def _references(source: Source) -> tuple[Reference, ...]:
    by_node: dict[cst.CSTNode, list[Reference]] = {}
    for found in source.references:
        if api(found.name) is not None or horovod(found.name) is not None:
            by_node.setdefault(found.node, []).append(found)
    return tuple(_one(source, rivals) for rivals in by_node.values())


def _one(source: Source, rivals: list[Reference]) -> Reference:
    chosen = next((found for found in rivals if is_v1(found.name)), rivals[0])
    certain = chosen.certain or name_of(source, chosen.node) is not None
    return replace(chosen, certain=certain)


def name_of(source: Source, node: cst.CSTNode) -> str | None:
    """Return the qualified name of an expression; of two for one public name of TensorFlow, that of `compat.v1`."""
    names = source.candidates(node)
    known = [name for name in names if name is not None]
    if len(known) != len(names) or not known:
        return None
    if len(known) == 1:
        return known[0]
    public = {api(name) for name in known}
    if len(public) != 1 or None in public:
        return None
    return next((name for name in known if is_v1(name)), known[0])


def uses(source: Source, *apis: str) -> Iterator[Reference]:
    """Yield the certain references to these public names (`Session`, `train.AdamOptimizer`)."""
    wanted = frozenset(apis)
    return (found for found in references(source) if found.certain and api(found.name) in wanted)


def calls(source: Source, *apis: str) -> Iterator[tuple[str, Reference, cst.Call]]:
    """Yield public name, reference and call wherever one of these is called."""
    for found in uses(source, *apis):
        name = api(found.name)
        if found.call is not None and name is not None:
            yield name, found, found.call


def horovod(name: str) -> str | None:
    """Return `rank` for `horovod.tensorflow.rank` and `horovod.tensorflow.keras.rank`; None for other packages."""
    for root in ("horovod.tensorflow.keras", "horovod.tensorflow", "horovod.keras"):
        if name == root:
            return ""
        if name.startswith(f"{root}."):
            return name[len(root) + 1 :]
    return None


def module_code(source: Source, reference: Reference) -> str | None:
    """Return how the reference writes TensorFlow itself (`tf`, `tf.compat.v1`), where it writes it."""
    found = None
    for node, name in zip(reference.chain, reference.names, strict=True):
        if api(name) == "":
            found = source.code(node)
    return found


def module_name(source: Source, node: cst.CSTNode) -> str | None:
    """Return a name under which TensorFlow's first interface is known where `node` stands, or None.

    A module that is TensorFlow's second interface is followed by `.compat.v1`.
    """
    scope = source.scope(node)
    names = [name for around in _scopes(scope) for name in around.bindings]
    for name in sorted(dict.fromkeys(names), key=lambda each: each != "tf"):
        candidates = scope.candidates(name)
        if all(each is not None and api(each) == "" for each in candidates):
            first = any(is_v1(each or "") for each in candidates) or writes_v1(source, name)
            return name if first else f"{name}.compat.v1"
    return None


def _scopes(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def writes_v1(source: Source, name: str) -> bool:
    """Tell whether a file reads names of TensorFlow 1 (`tf.Session`) of the module that it calls `name`."""
    return any(
        found.chain[0].value == name and not is_v1(found.name) and (api(found.name) or "") in V1_ONLY
        for found in references(source)
        if isinstance(found.chain[0], cst.Name)
    )


V1_ONLY = frozenset(
    {
        "Session", "InteractiveSession", "ConfigProto", "GPUOptions", "GraphOptions", "placeholder", "get_variable",
        "variable_scope", "global_variables_initializer", "global_variables", "trainable_variables", "set_random_seed",
        "reset_default_graph", "get_default_graph", "get_default_session", "assign", "placeholder_with_default",
        "train.Saver", "train.MonitoredTrainingSession", "train.Supervisor", "train.AdamOptimizer",
        "train.GradientDescentOptimizer", "train.MomentumOptimizer", "train.AdagradOptimizer",
        "train.RMSPropOptimizer", "train.get_or_create_global_step", "train.get_global_step", "app.run",
        "app.flags", "flags.DEFINE_string", "flags.DEFINE_integer", "logging.info", "logging.set_verbosity",
        "layers.dense", "layers.conv2d", "layers.flatten", "layers.max_pooling2d", "layers.batch_normalization",
        "layers.dropout", "random_normal", "random_uniform", "truncated_normal", "log", "to_float", "to_int32",
        "gfile.Open", "gfile.Exists", "summary.merge_all", "summary.FileWriter", "metrics.accuracy",
        "losses.softmax_cross_entropy", "losses.sparse_softmax_cross_entropy", "losses.mean_squared_error",
        "nn.softmax_cross_entropy_with_logits_v2", "add_to_collection", "get_collection", "div", "name_scope_v1",
        "disable_v2_behavior", "disable_eager_execution",
    }
)  # fmt: skip
"""Public names that TensorFlow 2 has only in `tf.compat.v1`."""
