"""Stands for a part of the adapter."""

from npu_bridge.npu_init import *
