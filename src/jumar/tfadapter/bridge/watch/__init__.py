"""What a program does with TensorFlow is watched: options are checked, steps counted, dumps written."""

from jumar.tfadapter.bridge.watch.functions import optimizer_methods
from jumar.tfadapter.bridge.watch.graphs import DATA
from jumar.tfadapter.bridge.watch.options import dumper_of, say_overflow
from jumar.tfadapter.bridge.watch.steps import StopRun
from jumar.tfadapter.bridge.watch.watch import Watch

__all__ = ["DATA", "StopRun", "Watch", "dumper_of", "optimizer_methods", "say_overflow"]
