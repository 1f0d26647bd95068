"""The device."""

from jumar.tfadapter.bridge.device import NpuDevice, global_options, open
from jumar.tfadapter.bridge.rounding import set_device_sat_mode
