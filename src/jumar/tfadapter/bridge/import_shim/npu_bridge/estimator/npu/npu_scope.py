"""Stands for a part of the adapter."""

from jumar.tfadapter.bridge.rounding import keep_dtype_scope
