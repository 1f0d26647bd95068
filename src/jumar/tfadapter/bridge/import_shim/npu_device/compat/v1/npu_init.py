"""All names of the adapter, as programs import them with *."""

from npu_bridge.npu_init import *
