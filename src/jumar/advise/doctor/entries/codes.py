"""The vendor's codes in a line, in every form in which they are printed: `codes_in`, `return_codes_in`.

A *code* is `EI0002` or `ERR00100`: in front of a colon, in brackets, behind a name (`Memory_Failure(EL0004):`) or
behind "error code". A *return code* is a number or its name: `error code is 507018`, `retCode: 0x7110001`,
`hcclRet[4]`, `ACL_ERROR_RT_AICPU_EXCEPTION`, `ACLNN_ERR_PARAM_INVALID`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources

_CODE_WORDS = r"(?:error[ _]?code|err[ _]?code|error[ _]?no)\W{0,3}(?:is\W{0,2})?"
CODE = re.compile(
    r"\b(E[A-Z0-9]\d{4}):(?=\s|$)|\w\((E[A-Z0-9]\d{4})\)(?=:|\s|\.|,|$)|\[(E[A-Z]\d{4})\]|"
    rf"\b(?i:{_CODE_WORDS})(E[A-Z0-9]\d{{4}})\b|\b(ERR\d{{5}})(?=[\s:;,.\-\])]|$)"
)
_BEFORE_NUMBER = r"\s*(?:is\b\s*|[:=\[(]\s*|,\s*(?:ret|code)\s*[:=]?\s*|with (?:code |error )?)"
_NUMBER_WORDS = (
    r"\b(?:error(?:, |[ _])?code|err[ _]?code|error[ _]?no|errno|ret(?:urn)?[ _]?(?:code|value|val)|runtime result|"
    r"acl(?:nn)? ?(?:error|ret|status)|(?:cann|acl) failure|(?:rt|acl|drv|hccl|ge)_?ret(?:code)?|ret)\s*(?:\(\w+\)\s*)?"
    r"(?:is\b|was\b|of\b|[:=\[(])*\s*(?:is\b\s*)?[:=\[(]*\s*|"
    rf"\b(?:err|error|failed){_BEFORE_NUMBER}"
)
_WEAK_WORDS = r"\b(?:returned|returns?|result|status|rc)"
_END = r"\b(?![.:]?\d)"
_NUMBER = rf"(-?\b(?:[01][xX][0-9a-fA-F]{{4,16}}|\d{{6}}|\d{{9,10}})){_END}"
RETURN_CODE = re.compile(f"(?:{_NUMBER_WORDS}){_NUMBER}", re.IGNORECASE)
_RESULT = re.compile(f"(?:{_WEAK_WORDS}{_BEFORE_NUMBER}){_NUMBER}", re.IGNORECASE)
_VENDOR = re.compile(
    r"(?i:fail|error|exception|runtime|launch|driver|npu|hccl|ascend|\bacl|\bcann\b|\bge\b)|\brt[A-Z]|\b(?:hal|drv)[A-Z]|PID:"
)
"""A round number after "result" or "status" is a return code only in a line with one of these: it may be a count."""
_NO_COUNT = ("507", "561", "0x")
_AFTER_FUNCTION = re.compile(
    r"\b(?:acl\w+|hccl\w+|rt[A-Z]\w+|drv\w+)\b[^;]{0,80}?\b(?:ret|return(?:ed)?|failed|result)\b\D{0,12}(\d{6})" + _END
)
_HCCL_NUMBER = re.compile(
    r"\b(?:hccl_?(?:ret|result)(?:code)?|HCCL function error:.{0,200}?, error code is)\W{0,4}(?:is\W{0,2})?(\d{1,2})"
    + _END,
    re.IGNORECASE,
)
NAME = re.compile(r"\b(?:ACL_ERROR|ACLNN_ERR|HCCL_E|DRV_ERROR)_[A-Z0-9_]*[A-Z0-9]\b")
_NO_ERROR = frozenset({"ACL_ERROR_NONE", "DRV_ERROR_NONE"})
MARKS = (
    "error code", "error_code", "errorcode", "err code", "errcode", "err_code", "errno", "errorno", "error no",
    "error_no", "runtime result", "ret", "result", "status", "rc", "err", "error", "failed", " failure ", "hccl_e_",
)  # fmt: skip
"""Every line with a return code holds one in lower case."""
_HCCL_RESULTS = (
    "", "PARA", "PTR", "MEMORY", "INTERNAL", "NOT_SUPPORT", "NOT_FOUND", "UNAVAIL", "SYSCALL", "TIMEOUT",
    "OPEN_FILE_FAILURE", "TCP_CONNECT", "ROCE_CONNECT", "TCP_TRANSFER", "ROCE_TRANSFER", "RUNTIME", "DRV", "PROFILING",
    "CCE", "NETWORK", "AGAIN", "REMOTE", "SUSPENDING", "OPRETRY_FAIL", "OOM",
)  # fmt: skip
"""HcclResult in `hccl_types.h` of HCCL: the names of 1, 2, 3 and so on, without `HCCL_E_`."""


def codes_in(line: str) -> list[str]:
    """Return the vendor codes that `line` reports, each once."""
    return list(dict.fromkeys(next(filter(None, groups)) for groups in CODE.findall(line)))


def return_codes_in(line: str) -> list[str]:
    """Return the return codes that `line` reports, as printed, each once; a small number of HCCL by its name."""
    found = [match for match in NAME.findall(line) if match not in _NO_ERROR]
    found += RETURN_CODE.findall(line)
    results = _RESULT.findall(line)
    if results:
        found += results if _VENDOR.search(line) else [one for one in results if one.lower().startswith(_NO_COUNT)]
    found += _AFTER_FUNCTION.findall(line)
    found += [name for number in _HCCL_NUMBER.findall(line) if (name := hccl_name(int(number)))]
    return list(dict.fromkeys(found))


def hccl_name(number: int) -> str:
    """Return the name of a result of HCCL, e.g. `HCCL_E_PARA`; empty for success and for what is none."""
    name = _HCCL_RESULTS[number] if 0 <= number < len(_HCCL_RESULTS) else ""
    return name and f"HCCL_E_{name}"


def forms_of(code: str) -> Iterator[str]:
    """Yield what a return code can stand for in the table: itself, its number, in tens and in hexadecimal."""
    yield code
    number = code_names().get(code)
    if number is not None:
        yield number
    elif code.lstrip("-")[:2].lower() == "0x":
        yield code.lower()
        yield str(int(code, 16))
    elif code.isdigit() and len(code) > 6:
        yield hex(int(code))
    if not code[:1].isalpha():
        yield from (name for name, value in code_names().items() if value == code)


def may_hold_code(form: str) -> bool:
    """Tell whether a line can hold a code of which only the form is known: each of its digits is 1."""
    return CODE.search(form) is not None


def may_hold_return_code(form: str) -> bool:
    """Tell whether a line can hold a return code of which only the form is known: each of its digits is 1."""
    return any(pattern.search(form) for pattern in (NAME, RETURN_CODE, _RESULT, _AFTER_FUNCTION, _HCCL_NUMBER))


@functools.cache
def code_names() -> Mapping[str, str]:
    """Return the vendor's names of return codes with their numbers."""
    file = resources.files("jumar.advise.doctor") / "data" / "code_names.json"
    names: dict[str, str] = json.loads(file.read_text("utf-8"))["names"]
    return names
