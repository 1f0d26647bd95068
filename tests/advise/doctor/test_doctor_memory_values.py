"""The memory options of document 000's case 03: computed from whole logs, however a launcher broke the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs

GB = 1024**3
HEAD = (
    "[ERROR] GE(685297,python3):2022-04-06-07:15:09.383.996 [graph_var_manager.cc:402]687614 AssignVarMem: ErrorNo: "
    "1343225857(Parameter's invalid!) [COMP][MEM_ALLOC][Check][Param] Out of memory: "
)
NEEDED = 13962468864 + GB


def action_of(folder: Path, text: str) -> str:
    log = folder / "run.log"
    log.write_text("2022-04-06 07:15:00,001 INFO start\n" + text + "\nsome other words\n")
    first = diagnose_logs([log]).first
    assert first is not None
    return first.finding.action


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "(train pid=99) ", "[default0]:"])
@pytest.mark.parametrize("joint", [" ", "\n"])
@pytest.mark.parametrize(
    ("what", "larger", "smaller"),
    [("var", "variable_memory_max_size", "graph_memory_max_size"),
     ("graph", "graph_memory_max_size", "variable_memory_max_size")],
)  # fmt: skip
def test_both_values_and_the_code_of_both_styles_are_given(
    what: str, larger: str, smaller: str, joint: str, prefix: str, tmp_path: Path
) -> None:
    middle = joint if joint == " " else joint + prefix
    said = f"current {what} size[13962468864]{middle}exceeds total {what} size[13958643712]"
    action = action_of(tmp_path, f"{prefix}{HEAD}{said}")
    assert f"{larger} to {NEEDED}" in action
    assert f"{smaller} to {31 * GB - NEEDED}" in action
    assert f'custom_op.parameter_map["{larger}"].s = tf.compat.as_bytes(str({NEEDED}))' in action
    assert f"NPURunConfig(graph_memory_max_size=str({NEEDED if what == 'graph' else 31 * GB - NEEDED})" in action


def test_a_line_that_breaks_before_the_size_is_understood(tmp_path: Path) -> None:
    action = action_of(tmp_path, f"{HEAD}current graph\nsize[13962468864] exceeds total graph size[13958643712]")
    assert f"graph_memory_max_size to {NEEDED}" in action


def test_a_size_without_excess_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("[INFO] GE(1,python3):2022-04-06-07:15:09.383.996 current var size[12], total var size[24]\n")
    assert diagnose_logs([log]).first is None
