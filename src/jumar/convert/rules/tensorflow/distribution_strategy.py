"""## What it does
Replaces the strategies of `tf.distribute` that train on several GPUs of one process (`MirroredStrategy`,
`MultiWorkerMirroredStrategy`, `OneDeviceStrategy`) by TensorFlow's default strategy, and takes `train_distribute` and
`eval_distribute` out of RunConfig. With `-d tf_strategy` the optimizers are wrapped, so that gradients are averaged
over the NPUs. Strategies with parameter servers or TPUs are reported.

## Why it matters
The adapter supports none of these strategies: on NPUs each process has one device, and the optimizer's wrapper averages
the gradients. The default strategy has the same methods and does nothing.

## Example
```python
strategy = tf.distribute.MirroredStrategy()
config = tf.estimator.RunConfig(train_distribute=strategy, save_checkpoints_steps=100)
```

## Use instead
```python
strategy = tf.distribute.get_strategy()
config = NPURunConfig(save_checkpoints_steps=100)
```

## Fix safety
Safe for one device. For several, the global batch, the learning rate and the shards of the data
(`dataset.shard(get_rank_size(), get_rank_id())`) are yours to set: one process a device sees its own batch only.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommunity/850/migration/tfmigr1/tfmigr1_000022.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_tfadapi_0059.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import around, replaced, without
from jumar.convert.rules.tensorflow.program.names import api, module_code, references
from jumar.convert.rules.tensorflow.program.style import DEVICE_IMPORT, adapter, style_of
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM645",
    name="distribution-strategy",
    summary="A strategy of tf.distribute trains on several GPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_REPLACED = ("MirroredStrategy", "MultiWorkerMirroredStrategy", "OneDeviceStrategy", "CollectiveAllReduceStrategy")
_REPORTED = ("ParameterServerStrategy", "TPUStrategy", "CentralStorageStrategy")
_ARGUMENTS = ("train_distribute", "eval_distribute", "experimental_distribute")
_WRAPPERS = ("npu_distributed_optimizer_wrapper", "npu_distributed_keras_optimizer_wrapper", "NPUDistributedOptimizer")
_KERAS = ("Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "Ftrl", "Nadam", "RMSprop", "SGD")


def find(context: Context) -> Iterator[Proposal]:
    """Replace strategies, and wrap optimizers where `-d tf_strategy` asks for it."""
    source, wraps = context.source, context.options.tensorflow.strategy == "tf_strategy"
    for found in references(source):
        name = api(found.name)
        if name is None or not found.certain:
            continue
        last = name.rpartition(".")[2]
        if found.call is not None and "distribute" in name and last in _REPLACED:
            yield _replaced(context, found)
        elif found.call is not None and "distribute" in name and last in _REPORTED:
            yield Proposal(
                rule=RULE, span=source.span(found.node), message=f"The adapter does not support `{last}`.",
                action="Train with one process a device, and wrap the optimizer: `jumar rule JM645`.",
            )  # fmt: skip
        elif name == "estimator.RunConfig" and found.call is not None:
            yield from _without_strategy(context, found.call)
        elif wraps and found.call is not None and _is_optimizer(name) and not _is_wrapped(context, found.call):
            yield _wrapped(context, found.call)


def _replaced(context: Context, found: Reference) -> Proposal:
    source, call = context.source, found.call
    assert call is not None
    module = module_code(source, found)
    edits = () if module is None else (
        replaced(source, call.func, f"{module}.distribute.get_strategy"), *without(source, call, list(call.args))
    )  # fmt: skip
    wraps = context.options.tensorflow.strategy == "tf_strategy"
    return Proposal(
        rule=RULE, span=source.span(call), replacements=edits,
        severity=Severity.ADVICE if edits else None,
        message="The NPU's processes have one device each, and TensorFlow's default strategy is for one device.",
        action="Give each process its shard of the data." if wraps else
        "To train on several NPUs, convert with `-d tf_strategy`, which wraps the optimizers.",
    )  # fmt: skip


def _without_strategy(context: Context, call: cst.Call) -> Iterator[Proposal]:
    gone = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _ARGUMENTS]
    if gone:
        names = ", ".join(arg.keyword.value for arg in gone if arg.keyword is not None)
        yield Proposal(
            rule=RULE, span=context.source.span(gone[0]), replacements=without(context.source, call, gone),
            severity=Severity.WARNING, message=f"NPURunConfig takes no strategy: `{names}` is taken out.",
            action="To train on several NPUs, wrap the optimizer: convert with `-d tf_strategy`.",
        )  # fmt: skip


def _is_optimizer(name: str) -> bool:
    head, _, last = name.rpartition(".")
    if head == "train":
        return last.endswith("Optimizer") and last not in ("Optimizer", "SyncReplicasOptimizer")
    return head in ("keras.optimizers", "optimizers", "keras.optimizers.legacy") and last in _KERAS


def _is_wrapped(context: Context, call: cst.Call) -> bool:
    return any(
        isinstance(outer, cst.Call) and last_name(outer.func) in _WRAPPERS for outer in context.source.ancestors(call)
    )


def _wrapped(context: Context, call: cst.Call) -> Proposal:
    if style_of(context) == "v1":
        name, needed = _WRAPPERS[0], adapter(context).name(_WRAPPERS[0])
    else:
        name, needed = f"npu_device.distribute.{_WRAPPERS[1]}", DEVICE_IMPORT
    return Proposal(
        rule=RULE, span=context.source.span(call), replacements=around(context.source, call, f"{name}("),
        requires=(needed,), message="The wrapped optimizer averages the gradients of all NPUs.",
    )  # fmt: skip
