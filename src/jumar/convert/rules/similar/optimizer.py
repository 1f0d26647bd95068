"""## What it does
With similar interfaces allowed (`-sim`): replaces apex's `FusedAdam` by `torch.optim.AdamW` (by `Adam` where
`adam_w_mode=False`), `FusedSGD` by `SGD`, `FusedAdagrad` by `Adagrad`, and bitsandbytes' 8-bit and paged AdamW by
`AdamW`. Defaults that differ are written out (`weight_decay=0.0`). Options without an equal keep the call as it is.

## Why it matters
These optimizers are CUDA extensions. Their formulas are PyTorch's; the defaults are not.

## Example
```python
from apex.optimizers import FusedAdam
optimizer = FusedAdam(model.parameters(), lr=1e-3, set_grad_none=True)
```

## Use instead
```python
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
```

## Fix safety
The same formula, rounded otherwise, and more kernels a step (`torch_npu.optim.NpuFusedAdamW` has one). Gradients
are set to None by `zero_grad`, which FusedSGD did not by default. bitsandbytes' states become float32: four
times the memory, and results without the error of quantisation. Checkpoints of the old optimizer's state do not
load into the new one.

## References
- https://nvidia.github.io/apex/optimizers.html
- https://pytorch.org/docs/stable/optim.html
- https://huggingface.co/docs/bitsandbytes/main/en/reference/optim/adamw
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.similar.replacing.forms import Form, written
from jumar.convert.rules.similar.replacing.replaced import Replaced, finder, proposals
from jumar.convert.rules.similar.replacing.spelling import bound_arguments, constant
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import comes_optionally

RULE = Rule(
    code="JM146",
    name="similar-optimizer",
    summary="An optimizer of a CUDA library can be replaced by PyTorch's.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)


_SAME = "The same formula, rounded otherwise; more kernels a step. A saved state of the old optimizer does not load. "
_ADAM = Form(
    new="torch.optim.AdamW",
    parameters=("params", "lr", "bias_correction", "betas", "eps", "adam_w_mode", "weight_decay", "amsgrad",
                "set_grad_none", "capturable", "master_weights"),
    positional=2,
    dropped={
        "bias_correction": (True,), "adam_w_mode": (True, 1), "set_grad_none": (), "capturable": (False,),
        "master_weights": (False,), "amsgrad": (False,),
    },
    added={"weight_decay": "0.0"},
    caveat=_SAME, needed="params",
)  # fmt: skip
_SGD = Form(
    new="torch.optim.SGD",
    parameters=("params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "wd_after_momentum",
                "materialize_master_grads", "set_grad_none"),
    positional=6,
    dropped={"wd_after_momentum": (False,), "materialize_master_grads": (), "set_grad_none": ()},
    caveat=_SAME + "zero_grad sets gradients to None. ", needed="params",
)  # fmt: skip
_ADAGRAD = Form(
    new="torch.optim.Adagrad",
    parameters=("params", "lr", "eps", "weight_decay", "set_grad_none", "adagrad_w_mode"),
    positional=2,
    dropped={"set_grad_none": (), "adagrad_w_mode": (False,)},
    caveat=_SAME,
    needed="params",
)
_BNB = Form(
    new="torch.optim.AdamW",
    parameters=("params", "lr", "betas", "eps", "weight_decay", "amsgrad", "optim_bits", "args", "min_8bit_size",
                "percentile_clipping", "block_wise", "is_paged"),
    positional=6,
    dropped={
        "optim_bits": (), "args": (None,), "min_8bit_size": (), "percentile_clipping": (100,), "block_wise": (),
        "is_paged": (),
    },
    caveat="States are float32 instead of 8 bits: four times the memory, and results without the error of "
    "quantisation. A saved state of the old optimizer does not load. ",
    needed="params",
)  # fmt: skip

_FORMS: dict[str, Form] = {
    "apex.optimizers.FusedAdam": _ADAM,
    "apex.optimizers.fused_adam.FusedAdam": _ADAM,
    "apex.optimizers.FusedSGD": _SGD,
    "apex.optimizers.fused_sgd.FusedSGD": _SGD,
    "apex.optimizers.FusedAdagrad": _ADAGRAD,
    "apex.optimizers.fused_adagrad.FusedAdagrad": _ADAGRAD,
    **{f"bitsandbytes.optim.{name}": _BNB for name in ("AdamW8bit", "PagedAdamW8bit", "AdamW", "PagedAdamW")},
    **{f"bitsandbytes.optim.{name}": _BNB for name in ("AdamW32bit", "PagedAdamW32bit")},
}


@finder(RULE)
def replaceable(context: Context) -> Iterator[Replaced]:
    """Yield the optimizers that the file makes, each replaced or left."""
    source = context.source
    for reference in source.references:
        form = _FORMS.get(reference.name)
        if form is None or reference.call is None or not reference.certain or comes_optionally(source, reference):
            continue
        yield written(context, RULE, reference, reference.call, _as_called(form, reference.call))


def _as_called(form: Form, call: cst.Call) -> Form:
    """Return the form of apex's Adam that the call asks for: with `adam_w_mode=False` it is Adam, not AdamW."""
    given = bound_arguments(call, form.parameters, positional=form.positional) or {}
    if "adam_w_mode" not in given or constant(given["adam_w_mode"].value) not in (False, 0):
        return form
    return replace(form, new="torch.optim.Adam", dropped={**form.dropped, "adam_w_mode": ()})


def find(context: Context) -> Iterator[Proposal]:
    """Replace what has an equal, where similar interfaces are allowed."""
    return proposals(context, RULE)
