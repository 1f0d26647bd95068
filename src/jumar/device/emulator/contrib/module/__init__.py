"""`torch_npu.contrib.module`."""

from __future__ import annotations

from jumar.device.emulator.contrib.module.activations import Mish, SiLU, Swish
from jumar.device.emulator.contrib.module.bidirectional_lstm import BiLSTM
from jumar.device.emulator.contrib.module.channel_shuffle import ChannelShuffle
from jumar.device.emulator.contrib.module.crossentropy import LabelSmoothingCrossEntropy
from jumar.device.emulator.contrib.module.deform_conv import DCNv2, ModulatedDeformConv
from jumar.device.emulator.contrib.module.drop_path import NpuDropPath
from jumar.device.emulator.contrib.module.ensemble_dropout import NpuCachedDropout, NpuFairseqDropout
from jumar.device.emulator.contrib.module.focus import Focus
from jumar.device.emulator.contrib.module.linear_a8w8_quant import LinearA8W8Quant
from jumar.device.emulator.contrib.module.linear_quant import LinearQuant
from jumar.device.emulator.contrib.module.linear_weight_quant import LinearWeightQuant
from jumar.device.emulator.contrib.module.multihead_attention import MultiheadAttention
from jumar.device.emulator.contrib.module.npu_modules import DropoutWithByteMask
from jumar.device.emulator.contrib.module.prefetcher import Prefetcher
from jumar.device.emulator.contrib.module.ps_roi_pooling import PSROIPool
from jumar.device.emulator.contrib.module.quant_conv2d import QuantConv2d
from jumar.device.emulator.contrib.module.roi_align import ROIAlign

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
