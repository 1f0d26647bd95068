"""`torch_npu.contrib.module`."""

from __future__ import annotations

from jumar.npu.api.contrib.module.activations import Mish, SiLU, Swish
from jumar.npu.api.contrib.module.bidirectional_lstm import BiLSTM
from jumar.npu.api.contrib.module.channel_shuffle import ChannelShuffle
from jumar.npu.api.contrib.module.crossentropy import LabelSmoothingCrossEntropy
from jumar.npu.api.contrib.module.deform_conv import DCNv2, ModulatedDeformConv
from jumar.npu.api.contrib.module.drop_path import NpuDropPath
from jumar.npu.api.contrib.module.ensemble_dropout import NpuCachedDropout, NpuFairseqDropout
from jumar.npu.api.contrib.module.focus import Focus
from jumar.npu.api.contrib.module.linear_a8w8_quant import LinearA8W8Quant
from jumar.npu.api.contrib.module.linear_quant import LinearQuant
from jumar.npu.api.contrib.module.linear_weight_quant import LinearWeightQuant
from jumar.npu.api.contrib.module.multihead_attention import MultiheadAttention
from jumar.npu.api.contrib.module.npu_modules import DropoutWithByteMask
from jumar.npu.api.contrib.module.prefetcher import Prefetcher
from jumar.npu.api.contrib.module.ps_roi_pooling import PSROIPool
from jumar.npu.api.contrib.module.quant_conv2d import QuantConv2d
from jumar.npu.api.contrib.module.roi_align import ROIAlign

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutWithByteMask",
    "Focus",
    "LabelSmoothingCrossEntropy",
    "LinearA8W8Quant",
    "LinearQuant",
    "LinearWeightQuant",
    "Mish",
    "ModulatedDeformConv",
    "MultiheadAttention",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "PSROIPool",
    "Prefetcher",
    "QuantConv2d",
    "ROIAlign",
    "SiLU",
    "Swish",
]
