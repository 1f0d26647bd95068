"""Rules about files that are not Python sources; their checks are in `jumar.migrate.files`."""

from __future__ import annotations

from jumar.migrate.rules.files import (
    cuda_argument,
    cuda_container,
    cuda_extension_source,
    cuda_requirement,
    cuda_switch_in_configuration,
    cuda_tool,
    cuda_variable_in_script,
    cuda_word_in_configuration,
    documented_cuda_command,
    unreadable_file,
)
from jumar.rules import Rule

RULES: tuple[Rule, ...] = (
    cuda_variable_in_script.RULE,
    cuda_argument.RULE,
    cuda_tool.RULE,
    cuda_word_in_configuration.RULE,
    cuda_container.RULE,
    cuda_requirement.RULE,
    cuda_extension_source.RULE,
    documented_cuda_command.RULE,
    unreadable_file.RULE,
    cuda_switch_in_configuration.RULE,
)
"""In the order of their codes."""
