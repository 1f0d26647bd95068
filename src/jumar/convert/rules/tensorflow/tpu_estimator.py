"""## What it does
Reports TPUEstimator, its RunConfig and EstimatorSpec, CrossShardOptimizer and other names of `tf.contrib.tpu`.

## Why it matters
TPUEstimator makes its sessions for a TPU or the host, never for an NPU, and it feeds `params["batch_size"]`, which
NPUEstimator does not. BERT's scripts are written for it.

## Example
```python
run_config = tf.contrib.tpu.RunConfig(model_dir=output, save_checkpoints_steps=1000)
estimator = tf.contrib.tpu.TPUEstimator(use_tpu=False, model_fn=model_fn, config=run_config, train_batch_size=32)
```

## Use instead
```python
run_config = NPURunConfig(model_dir=output, save_checkpoints_steps=1000)
estimator = NPUEstimator(model_fn=model_fn, config=run_config, params={"batch_size": 32})
```

## Fix safety
No fix: the batch size, host_call and the scaffold function are passed otherwise. NPUEstimatorSpec takes `host_call`.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000018.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_tfadapi_0048.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM646",
    name="tpu-estimator",
    summary="An estimator for TPUs does not run on an NPU.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_COUNTERPARTS: Mapping[str, str] = {
    "TPUEstimator": "NPUEstimator, with params={'batch_size': ...}",
    "TPUEstimatorSpec": "NPUEstimatorSpec, which takes host_call; pass a Scaffold instead of scaffold_fn",
    "RunConfig": "NPURunConfig, without tpu_config; iterations_per_loop is its own argument",
    "TPUConfig": "the argument iterations_per_loop of NPURunConfig",
    "InputPipelineConfig": "nothing: leave it out",
    "CrossShardOptimizer": "npu_distributed_optimizer_wrapper",
    "TPUClusterResolver": "nothing: leave it out",
}


def find(context: Context) -> Iterator[Proposal]:
    """Report the names of TPU modules."""
    for found in references(context.source):
        name = api(found.name) or ""
        if name.startswith(("contrib.tpu.", "estimator.tpu.", "tpu.", "contrib.cluster_resolver.TPU")):
            last = name.rpartition(".")[2]
            hint = _COUNTERPARTS.get(last, "its counterpart for one device")
            yield Proposal(
                rule=RULE, span=context.source.span(found.node),
                message=f"`{last}` is for TPUs and does not run on an NPU.", action=f"Use {hint}.",
            )  # fmt: skip
