"""What expressions and names of a script are, where its source tells."""

from __future__ import annotations

from jumar.tfadapter.source.expressions.bindings import bind_body, bind_module
from jumar.tfadapter.source.expressions.flags import Flags, flags_of
from jumar.tfadapter.source.expressions.imports import bind_imports
from jumar.tfadapter.source.expressions.place import Place
from jumar.tfadapter.source.expressions.values import Values

__all__ = ["Flags", "Place", "Values", "bind_body", "bind_imports", "bind_module", "flags_of"]
