"""Facts of a chip, without torch: SoC profiles, tables of operator and API support, estimated times."""

DEFAULT_SOC = "Ascend910B1"
"""The chip of the emulated NPU and of every question that names none."""
