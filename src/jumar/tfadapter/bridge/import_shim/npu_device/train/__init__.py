"""Training."""

from npu_device.train import optimizer
