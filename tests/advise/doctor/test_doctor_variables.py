"""The table of environment variables: complete, current in the docs, and right about values and names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import LAPTOP, NPU_SERVER, look, with_environ

from jumar.advise.doctor.variables import AREAS, misspelled, set_variables, variable_named, variables
from jumar.advise.doctor.variables.table import is_one_slip

ROOT = Path(__file__).parents[3]
OF_THE_DOCUMENTS = [
    "PTCOPY_ENABLE", "DYNAMIC_OP", "COMBINED_ENABLE", "TASK_QUEUE_ENABLE",
    "HCCL_WHITELIST_DISABLE", "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_GLOBAL_EVENT_ENABLE",
    "DUMP_GE_GRAPH", "DUMP_GRAPH_LEVEL", "ACL_DUMP_DATA", "ASCEND_AICPU_PATH",
    "ACL_OP_COMPILER_CACHE_MODE", "ACL_OP_COMPILER_CACHE_DIR", "ACL_OP_DEBUG_LEVEL", "ACL_DEBUG_DIR",
    "ACL_OP_SELECT_IMPL_MODE", "ACL_OPTYPELIST_FOR_IMPLMODE", "AOE_MODE", "ASCEND_DEVICE_ID",
    "TUNE_BANK_PATH", "TE_PARALLEL_COMPILER", "REPEAT_TUNE", "ASCEND_WORK_PATH",
    "TUNING_PARALLEL_NUM", "RANK_ID", "RANK_SIZE", "DEVICE_ID",
    "MASTER_ADDR", "MASTER_PORT", "SCALAR_TO_HOST_MEM", "BMMV2_ENABLE",
]  # fmt: skip


def complaint(name: str, value: str) -> str:
    (found,) = set_variables({name: value})
    return found.complaint


@pytest.mark.parametrize("name", OF_THE_DOCUMENTS)
def test_every_variable_of_the_documents_is_known(name: str) -> None:
    assert variable_named(name) is not None


@pytest.mark.parametrize("name", list(variables()))
def test_every_variable_says_what_it_does_and_who_says_so(name: str) -> None:
    one = variables()[name]
    assert one.meaning.endswith(".")
    assert one.source
    assert one.area in AREAS
    assert one.values_text
    assert one.name.isupper() or one.name == "MS_SUBMODULE_LOG_v"


@pytest.mark.parametrize("name", list(variables()))
def test_the_default_is_a_value_that_is_taken(name: str) -> None:
    one = variables()[name]
    if re.fullmatch(r"[\w.:,]+", one.default) and one.default not in ("unset",):
        assert one.complaint(one.default) == ""


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("HCCL_CONNECT_TIMEOUT", "7200", "60"),
        ("TASK_QUEUE_ENABLE", "2", "3"),
        ("HCCL_RDMA_TC", "132", "133"),
        ("HCCL_IF_IP", "10.0.0.1", "eth0"),
        ("HCCL_IF_IP", "fe80::1", "10.0.0.1,10.0.0.2"),
        ("HCCL_INTER_HCCS_DISABLE", "true", "yes"),
        ("HCCL_OP_RETRY_ENABLE", "L1:1,L2:0", "1"),
        ("HCCL_HOST_SOCKET_PORT_RANGE", "60000-60050,61000", "60000-"),
        ("HCCL_ALGO", "level0:NA;level1:ring", "ring"),
        ("HCCL_EXEC_TIMEOUT", "0.05", "-1"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "3", "error"),
        ("ASCEND_MODULE_LOG_LEVEL", "TBE=0:RUNTIME=1", "TBE=9"),
        ("TE_PARALLEL_COMPILER", "8", "0"),
        ("MS_ROLE", "MS_WORKER", "WORKER"),
        ("CPU_AFFINITY_CONF", "1,npu0:0-1", "yes"),
        ("TORCH_NPU_DEVICE_CAPABILITY", "9.0", "9"),
    ],
)
def test_values_are_judged(name: str, good: str, bad: str) -> None:
    assert complaint(name, good) == ""
    assert complaint(name, bad)


def test_an_empty_value_counts_as_unset() -> None:
    assert complaint("HCCL_CONNECT_TIMEOUT", " ") == ""


def test_a_variable_that_nothing_reads_any_more_is_told() -> None:
    (found,) = look("JM840", with_environ(NPU_SERVER, PTCOPY_ENABLE="1"))
    assert "not read after torch_npu of PyTorch 1.5" in found.message
    assert found.severity.label == "advice"


def test_a_timeout_that_is_no_number_is_reported_by_one_rule_only() -> None:
    host = with_environ(NPU_SERVER, HCCL_CONNECT_TIMEOUT="two minutes")
    assert look("JM840", host) == []
    assert len(look("JM811", host)) == 1


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("HCCL_CONECT_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_RDAM_TC", "HCCL_RDMA_TC"),
        ("ASCEND_GLOBAL_LOG_LEVLE", "ASCEND_GLOBAL_LOG_LEVEL"),
        ("TASK_QUEUE_ENABLED", "TASK_QUEUE_ENABLE"),
        ("PYTORCH_NPU_ALLOC_CONFIG", ""),
    ],
)
def test_a_name_with_one_slip_is_found(name: str, known: str) -> None:
    assert [found for _, found in misspelled({name: "1"})] == ([known] if known else [])


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_BUFFSIZE",
        "NCCL_ALGO",
        "NCCL_SOCKET_IFNAME",
        "TORCH_NCCL_BLOCKING_WAIT",
        "MS_ROLES2",
        "RANKS",
        "PATH",
        "HOME",
    ],
)
def test_names_of_other_software_are_left_alone(name: str) -> None:
    assert list(misspelled({name: "1"})) == []


def test_every_known_name_is_no_slip_of_another() -> None:
    assert list(misspelled(dict.fromkeys(variables(), "1"))) == []


def test_slips_are_one_letter_or_two_that_changed_places() -> None:
    assert is_one_slip("ABCD", "ABD")
    assert is_one_slip("ABCD", "ABDC")
    assert is_one_slip("ABCD", "ABXD")
    assert not is_one_slip("ABCD", "ABCD")
    assert not is_one_slip("ABCD", "AXYD")
    assert not is_one_slip("LEVEL1", "LEVEL2")


def test_a_variable_is_found_in_any_spelling_that_a_shell_has() -> None:
    for text in ("HCCL_BUFFSIZE", "$HCCL_BUFFSIZE", "${HCCL_BUFFSIZE}", "export HCCL_BUFFSIZE=200", "hccl_buffsize"):
        found = variable_named(text)
        assert found is not None
        assert found.name == "HCCL_BUFFSIZE"


def test_the_variables_of_this_machine_raise_nothing() -> None:
    assert look("JM840", LAPTOP) == []
    assert look("JM841", LAPTOP) == []


def test_the_page_of_variables_is_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "build_variables.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run python scripts/build_variables.py"
