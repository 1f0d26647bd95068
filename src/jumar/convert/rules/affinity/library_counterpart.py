"""## What it does
Reports functions and layers for which the vendor's affinity library, torch_npu, or its advice lists have
another: `torchvision.ops` (NMS, RoIAlign, PSRoIPool, deformable convolution), `torch.roll`, `torch.baddbmm`,
`nn.MultiheadAttention`, dynamic quantization of Linear, and the box coders and anchor flags of mmdetection.
Each finding says what differs.

## Why it matters
The general function may run on the host, in several operators, or overflow in float16.

## Example
```python
from torchvision.ops import roi_align
pooled = roi_align(features, boxes, 7)
```

## Use instead
```python
pooled = torch_npu.contrib.ROIAlign((7, 7), spatial_scale, sampling_ratio, aligned=True)(features, rois)
```

## Fix safety
No fix: arguments, layouts of boxes, or results differ, as each finding says.

## References
- Vendor's affinity list and advice lists (msfmktransplt); torch_npu 2.13 (`torch_npu.contrib`)
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM174",
    name="affinity-counterpart",
    summary="The vendor's library has a counterpart of this function.",
    severity=Severity.INFO,
    doc=__doc__,
    opt_in=True,
)


_CONTRIB = "torch_npu.contrib"

COUNTERPARTS = {
    "torchvision.ops.nms": "torch_npu.npu_nms_v4, which needs max_output_size and gives padded indices.",
    "torchvision.ops.batched_nms": f"{_CONTRIB}.function.npu_batched_multiclass_nms, which computes in float16.",
    "torchvision.ops.roi_align": f"{_CONTRIB}.ROIAlign, which takes boxes with their batch index and size pairs.",
    "torchvision.ops.RoIAlign": f"{_CONTRIB}.ROIAlign, which takes boxes with their batch index and size pairs.",
    "torchvision.ops.ps_roi_pool": f"{_CONTRIB}.PSROIPool, which pools squares only.",
    "torchvision.ops.PSRoIPool": f"{_CONTRIB}.PSROIPool, which pools squares only.",
    "torchvision.ops.deform_conv2d": f"{_CONTRIB}.ModulatedDeformConv, whose sizes are whole numbers.",
    "torchvision.ops.DeformConv2d": f"{_CONTRIB}.ModulatedDeformConv, whose sizes are whole numbers.",
    "torchvision.ops.box_iou": "torch_npu.npu_iou, which computes in float32 and takes boxes of other layouts, too.",
    "torchvision.ops.generalized_box_iou": "torch_npu.npu_giou, which takes boxes transposed.",
    "torchvision.ops.complete_box_iou": "torch_npu.npu_ciou, which takes boxes transposed.",
    "torchvision.ops.distance_box_iou": "torch_npu.npu_diou, which takes boxes transposed.",
    "torchvision.ops.stochastic_depth": f"{_CONTRIB}.NpuDropPath, which drops nothing in the first step.",
    "torch.roll": f"{_CONTRIB}.function.roll for the windows of Swin: it rolls height and width only.",
    "torch.baddbmm": "bmm and an addition: the fused form may overflow in float16 (vendor's precision advice).",
    "torch.nn.MultiheadAttention": f"{_CONTRIB}.MultiheadAttention, which gives (None, None) until it is switched on.",
    "torch.ao.quantization.quantize_dynamic": f"{_CONTRIB}.LinearA8W8Quant, whose scales you give.",
    "torch.quantization.quantize_dynamic": f"{_CONTRIB}.LinearA8W8Quant, whose scales you give.",
    "mmcv.ops.ModulatedDeformConv2d": f"{_CONTRIB}.ModulatedDeformConv, whose sizes are whole numbers.",
    "mmcv.ops.modulated_deform_conv2d": f"{_CONTRIB}.ModulatedDeformConv, whose sizes are whole numbers.",
    "mmcv.ops.RoIAlign": f"{_CONTRIB}.ROIAlign, which takes boxes with their batch index and size pairs.",
    "mmcv.ops.batched_nms": f"{_CONTRIB}.function.npu_batched_multiclass_nms, which computes in float16.",
    "mmcv.ops.nms": "torch_npu.npu_nms_v4, which needs max_output_size and gives padded indices.",
    "mmdet.core.multiclass_nms": f"{_CONTRIB}.function.npu_multiclass_nms, which computes in float16.",
    "mmdet.core.post_processing.multiclass_nms": f"{_CONTRIB}.function.npu_multiclass_nms, which computes in float16.",
    "mmdet.core.post_processing.fast_nms": f"{_CONTRIB}.function.npu_multiclass_nms, which computes in float16.",
    "mmdet.models.layers.multiclass_nms": f"{_CONTRIB}.function.npu_multiclass_nms, which computes in float16.",
    "mmdet.core.bbox.coder.delta_xywh_bbox_coder.delta2bbox": f"{_CONTRIB}.function.npu_bbox_coder_decode_xywh2xyxy.",
    "mmdet.core.bbox.coder.delta_xywh_bbox_coder.bbox2delta": f"{_CONTRIB}.function.npu_bbox_coder_encode_xyxy2xywh.",
    "fairseq.modules.FairseqDropout": f"{_CONTRIB}.NpuFairseqDropout, once its ensemble is enabled.",
    "fairseq.modules.fairseq_dropout.FairseqDropout": f"{_CONTRIB}.NpuFairseqDropout, once its ensemble is enabled.",
}
"""Functions and layers, and the vendor's counterpart of each."""


def find(context: Context) -> Iterator[Proposal]:
    """Report calls that have a counterpart."""
    source = context.source
    for reference in source.references:
        hint = COUNTERPARTS.get(reference.name)
        if hint is not None and reference.call is not None and reference.certain:
            yield Proposal(
                rule=RULE,
                span=source.span(reference.node),
                message=f"`{reference.name}` has a counterpart in the vendor's library.",
                action=f"Consider {hint}",
            )
