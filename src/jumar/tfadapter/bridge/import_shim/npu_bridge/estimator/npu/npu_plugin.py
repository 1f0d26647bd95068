"""Stands for a part of the adapter."""

from jumar.tfadapter.bridge.rounding import set_device_sat_mode
