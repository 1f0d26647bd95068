"""Entries of codes: the inner cause leads over the code around it, every code has an entry, ordinary numbers none."""

from __future__ import annotations

import re

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries import documents, known_errors
from jumar.advise.doctor.entries.codes import code_names
from jumar.advise.doctor.entries.explain import explain
from jumar.advise.doctor.entries.table import Match

TABLE = known_errors()
TITLES = {signature.name: signature.title for signature in TABLE.signatures}
CALL = "RuntimeError: npuSynchronizeDevice:NPUStream.cpp:506 NPU function error: AclrtSynchronizeDevice, error code is "
PTA = "[ERROR] 2025-09-24-20:59:48 (PID:4711, Device:0, RankID:0) ERR00100 PTA call acl api failed.\n"
RUNTIME = "[ERROR] RUNTIME(4711,python):2025-09-24-20:59:47.100.200 [stream.cc:1183]4712 "
CASES = [
    (
        "the buffer, not tiling nor the inner error",
        "RuntimeError: call aclnnMoeDistributeDispatchV3 failed, error code is 561002\n"
        + PTA
        + "EZ9999: Inner Error!\n"
        "EZ9999[PID: 4711] 2025-09-24-20:59:48.237.396 (EZ9999):  HCCL_BUFFSIZE is too SMALL, maxBs = 512, "
        "NEEDED_HCCL_BUFFSIZE(x) = 609MB, HCCL_BUFFSIZE=200MB.\n"
        "       MoeDistributeDispatchV2 do tiling failed, ret is -1.\n",
        "hccl-buffer-small",
    ),
    (
        "the kernels that are missing, not the parameter",
        "RuntimeError: call aclnnSwiGlu failed, detail:EZ1001: [PID: 4711] 2025-09-24-20:59:48.695.851 Get path and "
        "read binary_info_config.json failed, please check if the opp_kernel package is installed!\n",
        "aclnn-config-missing",
    ),
    (
        "bfloat16 on an old chip, not the operator that did not compile",
        CALL + "500002\n" + PTA + "E90003: [PID: 4711] 2025-09-24-20:59:48.761.546 Compile operator failed, cause: "
        "Template constraint, detailed information: bfloat16 of tbe.dsl.transdata is not supported.\n"
        "        Failed to compile Op [trans_TransData_8,]. (oppath: [Compile /x/trans_data.py failed with "
        "errormsg/stack: File\n        build graph failed, graph id:16, ret:4294967295[FUNC:BuildModelWithGraphId]\n",
        "bf16-transdata",
    ),
    (
        "NumPy 2, not the option that could not be set",
        CALL.replace("AclrtSynchronizeDevice", "at_npu::native::AclSetCompileopt")
        + "500001\n"
        + PTA
        + "EC0010: [PID: 4711] 2025-09-24-20:59:48.100.200 Failed to import Python module [AttributeError: `np.float_` "
        "was removed in the NumPy 2.0 release. Use `np.float64` instead..].\n       GEInitialize failed.\n",
        "numpy2-removed",
    ),
    (
        "a full device, not its start",
        "[ERROR] aclrtSetDevice(deviceId) failed: 507033 (/tmp/main.cpp:72)\n[ERROR] RecentErrMsg: [PID: 4711] "
        "2025-09-24-20:59:48.885.234 Memory_Allocation_Failure(EL0004): Failed to allocate memory.\n"
        "        Fail to init MemoryPoolManager, retCode=0x711000e.[FUNC:Init][FILE:raw_device.cc][LINE:670]\n",
        "EL0004",
    ),
    (
        "the visible devices, not the argument nor the missing device",
        "RuntimeError: init: NPU function error: aclrtGetDeviceCount(&device_count), error code is 207004\n"
        + PTA
        + "EE1001: [PID: 42] 2025-09-24-20:59:48.673.064 The argument is invalid.Reason: set "
        "ASCEND_RT_VISIBLE_DEVICES:4 error, input data rang[0-2)\n",
        "visible-devices",
    ),
    (
        "the address of a kernel, not the exception nor the processor",
        CALL
        + "507035\n"
        + PTA
        + "       The extend info: errcode:(0x10, 0, 0) errorStr: Illegal instruction, which is "
        "usually caused by unaligned UUB addresses. fixp_error0 info: 0x3001a20\n"
        "       Kernel task happen error, retCode=0x31, [vector core exception].\n",
        "kernel-unaligned",
    ),
    (
        "damaged memory, not the kernel that met it",
        CALL + "507054\nRuntimeError: HBM MULTI BIT ECC ERROR.time us= 1763543698123.\n",
        "pta-hbm",
    ),
    (
        "another CANN's library, not a symbol of torch",
        "[ERROR] GE(4711,main):2025-09-24-20:59:48.739.753 [host_cpu_engine.cc:288]4712 LoadLib: ErrorNo: 1343225860("
        "Internal errors) failed. path = /x/opp/built-in/libops_host_cpu.so, error = "
        "/x/opp/built-in/libops_host_cpu.so: undefined symbol: _ZN2ge14GetShapeErrMsgEjRKSsS1_\n",
        "opp-other-version",
    ),
    (
        "two collectives, not the link",
        "EI0005: 2025-09-24-20:59:48.781.599 The arguments for collective communication are inconsistent\n"
        "[ERROR] HCCL(4711,python):2025-09-24-20:59:48.831.640 [checker.cc:429] [4711][InitChannelStage][Parameter"
        "Conflict]CMD information tag check fail. local[AllGather_x], remote[AllReduce_x]\n"
        "        Transport init error. Reason: [Create][DestLink]Create Dest error! createLink para:rank[5]\n",
        "hccl-parameters-differ",
    ),
    (
        "an interface that is not there, not the variable in general",
        "[ERROR] HCCL(4711,python):2025-09-24-20:59:48.634.432 [sal.cc:501] [4711][InitGroupStage][EnvConfig]set "
        "ifname to [abc] by HCCL_SOCKET_IFNAME, but not found in the environment\n"
        "EI0001: [PID: 4711] 2025-09-24-20:59:48.100.200 Environment variable [HCCL_SOCKET_IFNAME] is invalid.\n",
        "hccl-interface",
    ),
    (
        "a Triton without this chip, not the compilation",
        "(EngineCore_DP0 pid=301) triton.compiler.errors.MLIRCompilationError:\n(EngineCore_DP0 pid=301) bishengir-"
        "compile: for the --target option: Cannot find option named 'Ascend310P3'!\n",
        "triton-target",
    ),
    (
        "the operator's rule, not the inner error nor the tiling",
        "RuntimeError: call aclnnQuantMatmulWeightNz failed, detail:E69999: Inner Error!\nE69999: [PID: 4711] "
        "2025-09-24-20:59:48.799.485 op[QuantBatchMatmulV3], this platform only support output transpose_x1 false and "
        "transpose_x2 true, actual [false, false]\n       Kernel GetWorkspace failed. opType: 40\n",
        "aclnn-platform-rule",
    ),
    (
        "the rank that died, by the heartbeat, not the rank that waited",
        RUNTIME + "ProcLogicCqReport:Task run failed, device_id=5, stream_id=1206, task_id=8029, sqe_type=7(notify "
        "wait), errType=0x20(sq sw status error)\n[ERROR]HCCL(4711,python):2025-09-24-20:59:48.049.385 [h.cc:610][4711]"
        "[TaskExecStage][HeartbeatAbnormal]Cluster Exception Location[IP/ID]:[10.0.0.1/1], Arrival Time:[Thu Oct 23 "
        "17:25:58 2025], Discoverer:[10.0.0.1/2], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1.\n",
        "hccl-heartbeat",
    ),
]


@pytest.mark.parametrize(("case", "log", "name"), CASES, ids=[case for case, _, _ in CASES])
def test_the_inner_cause_leads_over_the_code_around_it(tmp_path, case, log, name):
    path = tmp_path / "train.log"
    path.write_text(log, encoding="utf-8")
    first = diagnose_logs([path]).first
    assert first is not None, case
    assert first.finding.message.startswith(TITLES[name])


def search(line: str) -> list[Match]:
    return list(TABLE.searcher(line.encode()).search(line))


@pytest.mark.parametrize(
    "code",
    ["EI0099", "EJ0050", "EE5000", "EH0099", "EL0099", "EZ0099", "EB0099", "EC0099", "EM0001", "E30999", "E70099"],
)
def test_a_code_without_an_entry_names_the_part_of_cann(code):
    (match,) = search(f"{code}: [PID: 1] text")
    assert match.signature is not None
    assert match.signature.role in {"symptom", "wrapper", "cause"}


@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("107099", "range-acl-argument"),
        ("207099", "range-acl-resource"),
        ("507888", "range-acl-inner"),
        ("545001", "range-acl-model-load"),
        ("561199", "range-aclnn"),
        ("0x7020010", "range-runtime-inner"),
        ("1343225860", "range-ge-number"),
        ("0x0000000005010009", "range-hccl-number"),
    ],
)
def test_a_return_code_without_an_entry_has_a_range(number, name):
    (match,) = search(f"call failed, retCode={number}, next")
    assert match.signature is not None
    assert match.signature.name == name


def test_every_name_of_a_return_code_has_an_entry_and_means_its_number():
    bare = [name for name in code_names() if not explain(name, TABLE).entries]
    assert bare == []


@pytest.mark.parametrize("number", range(1, 25))
def test_each_result_of_hccl_is_known(number):
    (match,) = search(f"call trace: hcclRet -> {number}")
    assert match.signature is not None
    assert match.signature.name.startswith(("hccl-result-", "range-hccl-"))


@pytest.mark.parametrize(
    "line",
    [
        "throughput result: 100000 tokens",
        "result: 200000 samples, 500000 tokens",
        "eval result: 107015 samples, status: 200001",
        "INFO step 7 result=107015",
        "saved 1000 rows, ret 1000",
        "HBM ECC single bit count: 0, ECC enabled",
        "FORCE STOP = 0",
        "Getting a block from the pool",
        "wrote /opp/built-in/libx.so",
        "Device 0 heartbeat ok",
        "HCCL_BUFFSIZE set by environment to [200]M",
        "notify wait finish, notify_id=3",
        "drvRetCode=0",
    ],
)
def test_ordinary_numbers_and_words_are_no_codes(line):
    assert search(line) == []


def test_ranges_are_read_last_and_leave_no_specific_entry_unreachable():
    codes = [entry for document in documents() for entry in document["errors"] if entry["kind"] != "message"]
    ranges = [place for place, entry in enumerate(codes) if entry["name"].startswith("range-")]
    assert ranges[0] > max(place for place, entry in enumerate(codes) if not entry["name"].startswith("range-"))


def test_a_range_is_not_shown_beside_an_entry_of_the_code_itself():
    assert [one.signature.name for one in explain("EI0006", TABLE).entries] == ["EI0006"]
    assert [one.signature.name for one in explain("EI0099", TABLE).entries] == ["range-hccl"]
    assert not re.search("without an entry of its own", explain("507018", TABLE).entries[0].signature.title)


def test_a_needle_is_more_than_digits_and_a_blank_for_the_sieve_reads_all_digits_as_one():
    bare = [
        one.needle for one in TABLE.signatures if one.kind == "message" and not re.search(r"[^\d\s-]{3}", one.needle)
    ]
    assert bare == []
