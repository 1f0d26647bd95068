"""One process used another number of devices on the NPU side than on the reference's.

## What it does
Counts the devices that hold tensors in each rank of both recordings. Reports a rank that used several devices on one
side, and one on the other.

## Why it matters
A process that shares its batch out between GPUs (`torch.nn.DataParallel`) trains with a larger batch than the other
side. The two runs then read other data, and nothing can be compared. transformers' Trainer does so by itself wherever
several GPUs are visible, and not with NPUs.

## Example
`rank 0 used 8 devices in the reference run and 1 in the NPU run`

## Use instead
```bash
CUDA_VISIBLE_DEVICES=0 jumar port train.py    # one device on both sides
jumar port torchrun --nproc-per-node 2 train.py    # one process for each device
```

## Fix safety
No edit is made.

## References
https://huggingface.co/docs/transformers/perf_train_gpu_many
"""

from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM910",
    name="other-number-of-devices",
    summary="One process used another number of devices on the NPU side than on the reference's.",
    severity=Severity.ERROR,
    doc=__doc__,
)
