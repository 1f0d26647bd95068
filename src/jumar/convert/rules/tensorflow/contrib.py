"""## What it does
Reports names of `tf.contrib`, one finding for each of its modules.

## Why it matters
`tf.contrib` is in TensorFlow 1.15 only. Most of it composes core operators and runs on the NPU; some parts are kernels
for GPUs (`cudnn_rnn`, `nccl`, `tensorrt`) and do not.

## Example
```python
cell = tf.contrib.cudnn_rnn.CudnnLSTM(1, 128)
```

## Use instead
```python
cell = tf.nn.rnn_cell.LSTMCell(128)
```

## Fix safety
No fix. The adapter has `npu_rnn` for recurrent networks.

## References
- https://www.hiascend.com/document/detail/en/TensorFlowCommercial/850/API/tfadapter1x/tfmigr1_tfadapi_0001.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM659",
    name="tensorflow-contrib",
    summary="A part of tf.contrib is used.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_KERNELS = frozenset(
    {"cudnn_rnn", "nccl", "all_reduce", "tensorrt", "fused_conv", "memory_stats", "gdr", "verbs", "mpi"}
)
_ELSEWHERE = frozenset({"tpu", "distribute", "mixed_precision", "compiler"})
"""Modules that other rules speak of."""


def find(context: Context) -> Iterator[Proposal]:
    """Report each module of tf.contrib once."""
    places: dict[str, list[Span]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    for found in references(context.source):
        head, _, rest = (api(found.name) or "").partition(".")
        module = rest.partition(".")[0]
        if head == "contrib" and module and module not in _ELSEWHERE:
            places[module].append(context.source.span(found.node))
            names[module].add(api(found.name) or "")
    for module, spans in places.items():
        kernels = module in _KERNELS
        yield from summary(
            context.source, RULE, spans,
            f"tf.contrib.{module} is made of kernels for GPUs" if kernels
            else f"tf.contrib.{module} is only in TensorFlow 1.15, and the adapter does not list it",
            evidence={"names": [*sorted(names[module])]}, severity=Severity.WARNING if kernels else Severity.ADVICE,
            action="Replace it by core operators." if kernels else "See that it runs on the NPU.",
        )  # fmt: skip
