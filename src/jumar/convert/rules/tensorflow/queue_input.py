"""## What it does
Reports input by queues: `tf.train.batch`, `shuffle_batch`, `string_input_producer`, `start_queue_runners`, readers,
`FIFOQueue`.

## Why it matters
The adapter takes data from `tf.data` and from placeholders only.

## Example
```python
images, labels = tf.train.shuffle_batch([image, label], 32, 2000, 1000)
```

## Use instead
```python
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2000).batch(32, drop_remainder=True)
images, labels = dataset.make_one_shot_iterator().get_next()
```

## Fix safety
No fix.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000001.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM665",
    name="queue-input",
    summary="Data come from queues, which the adapter does not take.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_NAME = re.compile(
    r"train\.(?:maybe_)?(?:shuffle_)?batch(?:_join)?|train\.\w+_producer|train\.start_queue_runners|train\.QueueRunner"
    r"|train\.add_queue_runner|(?:queue\.)?(?:FIFOQueue|PaddingFIFOQueue|RandomShuffleQueue|PriorityQueue)"
    r"|(?:WholeFile|TextLine|TFRecord|FixedLengthRecord|Identity)Reader|contrib\.slim\.prefetch_queue.*"
)


def find(context: Context) -> Iterator[Proposal]:
    """Report the queues of a file."""
    source = context.source
    queues = [found for found in references(source) if _NAME.fullmatch(api(found.name) or "")]
    names = sorted({api(found.name) or "" for found in queues})
    spans = [source.span(found.node) for found in queues]
    yield from summary(
        source, RULE, spans, "Data come from queues, and the adapter takes tf.data and placeholders only",
        severity=Severity.WARNING, evidence={"names": list(names)}, action="Write the input with tf.data.",
    )  # fmt: skip
