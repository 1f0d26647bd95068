"""Operators."""

from jumar.tfadapter.bridge.device import gelu
