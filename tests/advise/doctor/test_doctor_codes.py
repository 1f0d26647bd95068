"""The vendor's codes are found in every form in which they are printed, and numbers that are none are not."""

from __future__ import annotations

import re

import pytest

from jumar.advise.doctor.entries.codes import (
    MARKS,
    code_names,
    codes_in,
    forms_of,
    hccl_name,
    may_hold_code,
    may_hold_return_code,
    return_codes_in,
)
from jumar.advise.doctor.logs.lines.facts import device_in, operator_in

CODES = [
    ("E19014: bad", ["E19014"]),
    ("EZ9999: Inner Error!", ["EZ9999"]),
    ("[PID: 4346] 2025-11-30-05:12:25.730.116 AclNN_Parameter_Error(EZ1001): The self tensor", ["EZ1001"]),
    ("Memory_Allocation_Failure(EL0004): Failed to allocate memory", ["EL0004"]),
    ("[EL0004] Failed", ["EL0004"]),
    ("(PID:1, Device:0, RankID:-1) ERR01100 OPS call acl api failed", ["ERR01100"]),
    ("ERR01100-OPS call", ["ERR01100"]),
    ("ERR02200: DIST", ["ERR02200"]),
    ("error code: EI0006", ["EI0006"]),
    ("ErrCode=EI0006", ["EI0006"]),
    ("errorcode[EE1001]", ["EE1001"]),
    ("EI0002: a EI0006: b", ["EI0002", "EI0006"]),
    ("model E10001 accuracy 0.9", []),
    ("sha256 E19999abc: ok", []),
    ("ResNet-50 EX1234", []),
    ("XEZ9999: no word of its own", []),
    ("item (E10001) of the shop", []),
]
RETURN_CODES = [
    ("error code is 507018", ["507018"]),
    ("error code:507015", ["507015"]),
    ("ret=107002", ["107002"]),
    ("ret = 507018", ["507018"]),
    ("ret[507018]", ["507018"]),
    ("hcclRet[4]", ["HCCL_E_INTERNAL"]),
    ("HCCL function error: HcclAllReduce, error code is 9", ["HCCL_E_TIMEOUT"]),
    ("stream setup failed, retCode=0x7020010.", ["0x7020010"]),
    ("retCode: 0x7110001, [x]", ["0x7110001"]),
    ("error code is 0x7BC8A", ["0x7BC8A"]),
    ("errcode:361001", ["361001"]),
    ("ErrCode=507018", ["507018"]),
    ("error_code: 561103", ["561103"]),
    ("call aclnnInplaceZero failed, error code is 561103", ["561103"]),
    ("aclrtSynchronizeStream failed, ret 507018.", ["507018"]),
    ("synchronize stream failed, runtime result = 507048[FUNC:ReportCallError]", ["507048"]),
    ("returns with code 507018", ["507018"]),
    ("status: 507899", ["507899"]),
    ("ErrorNo: 4294967295(failed)", ["4294967295"]),
    ("ret is ACL_ERROR_RT_AICPU_EXCEPTION", ["ACL_ERROR_RT_AICPU_EXCEPTION"]),
    ("ACLNN_ERR_PARAM_INVALID: Invalid parameter", ["ACLNN_ERR_PARAM_INVALID"]),
    ("HCCL_E_TIMEOUT", ["HCCL_E_TIMEOUT"]),
    ("hcclRet[0], ret=0, error code is 0", []),
    ("if (ret != ACL_ERROR_NONE)", []),
    ("saved result 507015 to disk", []),
    ("step 100107 loss 0.207001", []),
    ("returned 100000 samples", []),
    ("ret=0.507018", []),
    ("time 12:507018", []),
]


@pytest.mark.parametrize(("line", "codes"), CODES)
def test_a_code_is_found_in_every_form(line: str, codes: list[str]) -> None:
    assert codes_in(line) == codes


@pytest.mark.parametrize(("line", "codes"), RETURN_CODES)
def test_a_return_code_is_found_in_every_form(line: str, codes: list[str]) -> None:
    assert return_codes_in(line) == codes


@pytest.mark.parametrize("line", [line for line, codes in [*CODES, *RETURN_CODES] if codes])
def test_the_form_of_a_line_with_a_code_tells_that_it_may_hold_one(line: str) -> None:
    form = re.sub(r"\d", "1", line)
    assert (not codes_in(line)) or may_hold_code(form)
    assert (not return_codes_in(line)) or (may_hold_return_code(form) and any(mark in line.lower() for mark in MARKS))


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("507018", "507018"),
        ("507018", "ACL_ERROR_RT_AICPU_EXCEPTION"),
        ("ACL_ERROR_RT_AICPU_EXCEPTION", "507018"),
        ("0x7BC8A", "507018"),
        ("0x7BC8A", "0x7bc8a"),
        ("117506049", "0x7010001"),
    ],
)
def test_a_return_code_is_looked_up_by_number_name_and_hexadecimal(code: str, form: str) -> None:
    assert form in forms_of(code)


def test_results_of_hccl_have_names() -> None:
    assert [hccl_name(number) for number in (0, 1, 4, 9, 24, 25)] == [
        "", "HCCL_E_PARA", "HCCL_E_INTERNAL", "HCCL_E_TIMEOUT", "HCCL_E_OOM", "",
    ]  # fmt: skip


def test_names_of_return_codes_have_numbers() -> None:
    assert all(number.isdigit() for number in code_names().values())


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("device_id=0x3", 3),
        ("[devid 0x1f] x", 31),
        ("deviceId=0, sqId=93", 0),
        ("(PID:1, Device:7, RankID:-1)", 7),
        ("(PID:1, Device:-1, RankID:-1)", None),
        ("tensor on npu:5", 5),
        ("device memory 3", None),
        ("the device was lost", None),
    ],
)
def test_the_device_of_a_line(line: str, device: int | None) -> None:
    assert device_in(line) == device


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        ("call aclnnAdd failed", "aclnnAdd"),
        ("aclnnMatmulGetWorkspaceSize failed", "aclnnMatmul"),
        ("op_type: MatMulV2, op_name: x/y", "MatMulV2"),
        ("fault kernel_name=te_gatherv2_3f", "te_gatherv2_3f"),
        ("no operator", None),
    ],
)
def test_the_operator_of_a_line(line: str, operator: str | None) -> None:
    assert operator_in(line) == operator
