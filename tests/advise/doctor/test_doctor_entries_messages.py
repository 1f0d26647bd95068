"""Entries of messages: which one explains a log of several errors, and which lines of good runs none takes."""

from __future__ import annotations

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries import known_errors

TABLE = known_errors()
TITLES = {signature.name: signature.title for signature in TABLE.signatures}

IMPORT = """Traceback (most recent call last):
  File "/opt/py310/lib/python3.10/site-packages/torch/__init__.py", line 2639, in _import_device_backends
    entrypoint = backend_extension.load()
  File "/opt/py310/lib/python3.10/site-packages/torch_npu/__init__.py", line 16, in <module>
    import torch_npu.npu
{cause}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/user/train.py", line 1, in <module>
    import torch
  File "/opt/py310/lib/python3.10/site-packages/torch/__init__.py", line 2645, in _import_device_backends
    raise RuntimeError(
RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with \
TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""
ENGINE = """INFO 09-07 01:10:00 [core.py:69] Initializing a V1 LLM engine (v0.11.0)
(EngineCore_DP0 pid=271) ERROR 09-07 01:11:09 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=271) ERROR 09-07 01:11:09 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=271) ERROR 09-07 01:11:09 [core.py:708]   File "/vllm/v1/engine/core.py", line 699, in run
(EngineCore_DP0 pid=271) ERROR 09-07 01:11:09 [core.py:708]     engine_core = EngineCoreProc(*args, **kwargs)
(EngineCore_DP0 pid=271) ERROR 09-07 01:11:09 [core.py:708] {cause}
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/vllm/v1/engine/utils.py", line 750, in wait_for_engine_startup
(APIServer pid=1)     raise RuntimeError("Engine core initialization failed. "
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""
SCRIPT = """Traceback (most recent call last):
  File "/home/user/train.py", line 88, in <module>
    main()
  File "/home/user/train.py", line 41, in main
    step(batch)
{cause}
"""
LOGS = [
    (IMPORT, "ImportError: libhccl.so: cannot open shared object file: No such file or directory", "libhccl-missing"),
    (
        IMPORT,
        "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory",
        "libascend-hal-missing",
    ),
    (
        IMPORT,
        "ImportError: /opt/py310/lib/python3.10/site-packages/torch_npu/lib/libtorch_npu.so: undefined symbol: "
        "_ZN3c1017RegisterOperatorsD1Ev",
        "undefined-symbol-torch-npu",
    ),
    (
        IMPORT,
        "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/libtorch_npu.so)",
        "glibcxx-too-old",
    ),
    (IMPORT, "ModuleNotFoundError: No module named 'yaml'", "cann-python-packages"),
    (IMPORT, "AttributeError: module 'triton' has no attribute 'language'", "triton-shadowed"),
    (
        ENGINE,
        "RuntimeError: Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use "
        "the 'spawn' start method",
        "npu-fork",
    ),
    (
        ENGINE,
        "ValueError: Free memory on device (3.1/60.96 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 54.86 GiB).",
        "vllm-free-memory",
    ),
    (
        ENGINE,
        "ValueError: To serve at least one request with the model's max seq len (40960), 4.38 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (1.0 GiB).",
        "vllm-kv-small",
    ),
    (
        ENGINE,
        "RuntimeError: aclnnAddRmsNormBias or aclnnAddRmsNormBiasGetWorkspaceSize not in libopapi.so, or libopapi.so "
        "not found.",
        "aclnn-missing",
    ),
    (
        ENGINE,
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.96 GiB total capacity)",
        "npu-out-of-memory",
    ),
    (SCRIPT, "RuntimeError: Could not run 'torchvision::nms' with arguments from the 'PrivateUse1' backend.", None),
    (SCRIPT, "RuntimeError: No backend type associated with device type cpu", "no-backend-for-device"),
    (SCRIPT, "AttributeError: module 'torch._C' has no attribute '_cuda_getCurrentRawStream'", "cuda-stream-attribute"),
    (SCRIPT, "_pickle.UnpicklingError: invalid load key, 'v'.", "lfs-pointer-load"),
    (SCRIPT, "_pickle.UnpicklingError: invalid load key, '\\x00'.", "invalid-load-key"),
    (SCRIPT, "AssertionError: 25 is not divisible by 4", "parallel-not-divisible"),
    (SCRIPT, "AttributeError: `np.Inf` was removed in the NumPy 2.0 release. Use `np.inf` instead.", "numpy2-removed"),
    (
        SCRIPT,
        "RuntimeError: Expected all tensors to be on the same device. Expected NPU tensor, please check whether the "
        "input tensor device is correct.",
        "npu-tensor-expected",
    ),
]


def first_of(tmp_path, text):
    log = tmp_path / "train.log"
    log.write_text(text, encoding="utf-8")
    first = diagnose_logs([log]).first
    return first and first.finding


@pytest.mark.parametrize(("log", "cause", "name"), LOGS, ids=[name or cause[:40] for _, cause, name in LOGS])
def test_the_inner_cause_leads_over_what_passes_it_on(tmp_path, log, cause, name):
    name = name or "run-operator-backend"
    first = first_of(tmp_path, log.format(cause=cause))
    assert first is not None
    assert first.message.startswith(TITLES[name])


MANY = [
    (
        "a full /dev/shm, not the worker that it ended",
        "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.\n",
        "shared-memory",
    ),
    (
        "the OOM killer, not the rank that it ended",
        "[519308.099433] Memory cgroup out of memory: Killed process 994362 (python3) total-vm:23064888kB\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 994362)\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
        "cgroup-oom",
    ),
    (
        "the compiler, not ninja and the optimizer without it",
        "fatal error: cuda_runtime.h: No such file or directory\n"
        "compilation terminated.\n"
        "ninja: build stopped: subcommand failed.\n"
        "RuntimeError: Error building extension 'cpu_adam'\n"
        "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'\n",
        "gcc-cuda-h",
    ),
    (
        "MindSpore's missing library, not the device that it lacks then",
        "RuntimeError: Unsupported device target Ascend. This process only supports one of the ['CPU'].\n"
        "- Device load error message:\n"
        "Load dynamic library: libmindspore_ascend.so.2 failed. libge_runner.so: cannot open shared object file: "
        "No such file or directory\n",
        "mindspore-plugin-load",
    ),
    (
        "the package that te lacks, not the option that could not be set",
        "RuntimeError: Initialize: NPU function error: at_npu::native::AclSetCompileopt(aclCompileOpt::"
        "ACL_PRECISION_MODE, precision_mode), error code is 500001\n"
        "[ERROR] 2024-10-29-13:32:37 (PID:1313942, Device:0, RankID:-1) ERR00100 PTA call acl api failed\n"
        "EC0010: 2024-10-29-13:32:37.425.686 Failed to import Python module [ModuleNotFoundError: No module named "
        "'sympy'.].\n",
        "cann-python-packages",
    ),
    (
        "the port that is taken, by the message that says whose",
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in "
        "use).\n"
        "RuntimeError: The server socket has failed to listen on any local network address. The server socket has "
        "failed to bind to [::]:29500 (errno: 98 - Address already in use).\n",
        "tcpstore-listen",
    ),
    (
        "the streams that a graph needs, not memory or disk",
        "RuntimeError: capture_begin:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:214 NPU function error: "
        "c10_npu::acl::AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207005\n"
        "[ERROR] 2026-04-17-09:16:39 (PID:1802934, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n"
        "[Error]: Failed to apply for memory.\n        Check the remaining storage space in the hardware environment.\n"
        "EE9999: Inner Error!\n",
        "acl-graph-begin",
    ),
    (
        "kernels that are not installed, not the inner error around them",
        "[E OpParamMaker.cpp:273] call aclnnCast failed, detail:EZ9999: Inner Error!\n"
        "EZ9999: 2024-05-17-01:30:26.960.959  Op Cast does not has any binary.\n"
        "        launch failed for Cast, errno:561000.\n"
        "[ERROR] 2024-05-17-01:30:26 (PID:41961, Device:0, RankID:-1) ERR01005 OPS internal error\n",
        "kernels-missing",
    ),
    (
        "shared memory, not the disk",
        "RuntimeError: unable to write to file </torch_4242_1234567_0>: No space left on device (28)\n",
        "shm-full",
    ),
    (
        "the folder that hides a plugin, not the platform that vLLM lacks then",
        "ERROR 10-13 03:39:35 [__init__.py:46] Failed to load plugin ascend\n"
        "ERROR 10-13 03:39:35 [__init__.py:46] AttributeError: module 'vllm_ascend' has no attribute 'register'\n"
        "INFO 10-13 03:39:35 [__init__.py:243] No platform detected, vLLM is running on UnspecifiedPlatform\n"
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`\n",
        "vllm-ascend-register",
    ),
    (
        "the max pooling, not an operator in general",
        "GetDNNEngineName:Op type MaxPoolGradWithArgmaxV1 of ops kernel AIcoreEngine is unsupported, reason:Op "
        "MaxPoolGradWithArgmaxV1 not supported\n",
        "max-pool-grad",
    ),
]


@pytest.mark.parametrize(("case", "log", "name"), MANY, ids=[case for case, _, _ in MANY])
def test_of_several_errors_the_telling_one_leads(tmp_path, case, log, name):
    first = first_of(tmp_path, log)
    assert first is not None, case
    assert first.message.startswith(TITLES[name])


GOOD = """
Requirement already satisfied: torch_npu in /opt/py310/lib/python3.10/site-packages (2.1.0)
Successfully installed Pillow-10.2.0 numpy-1.26.4 protobuf-3.20.3
found libhccl.so in /usr/local/Ascend/ascend-toolkit/latest/lib64
loading /usr/local/Ascend/driver/lib64/driver/libascend_hal.so
Free memory on device (60.2/60.96 GiB) before start
GPU KV cache size: 270,592 tokens, maximum concurrency 132x
flash_attn is not installed, using sdpa
bitsandbytes 0.45.0 not used
apex is not available, using torch.amp
Warning: apex was installed without --cpp_ext. Falling back to Python flatten and unflatten.
malloc: 3 blocks, free: 12 blocks
batch size 32 divisible by 8 ranks
loss scale 65536.0 overflow:False
step: 97, loss: 69.513245, overflow:False, scale:1.0
Loading safetensors checkpoint shards: 100% 4/4 [00:03<00:00,  1.10it/s]
WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'ReadTimeoutError("HTTPSConnectionPool(host='pypi.org', port=443): Read timed out. (read timeout=15)")': /simple/torch/
fp16 mixed precision on npu:0
kernel_meta compiled with bishengir-compile in 3.2 s
HCCL watchdog thread terminated normally
Signal handlers installed for SIGTERM
Backend hccl, world size 8
'(MaxRetryError("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x")' thrown \
while requesting HEAD https://huggingface.co/x/resolve/main/config.json
WARNING 04-09 [config.py:33] User-specified max_model_len (32768) is greater than the derived max_model_len (8192).
[WARNING]  CUDA_HOME does not exist, unable to compile CUDA op(s)
"opat_tuning_result": "tuning successful"
| 0     910B1               | OK            | 94.6        49                0    / 0             |
Address of the store: tcp://192.0.2.10:29500
""".strip().split("\n")


@pytest.mark.parametrize("line", GOOD)
def test_lines_of_good_runs_are_no_errors(line):
    assert list(TABLE.searcher(line.encode()).search(line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "W dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot "
        "open shared object file: No such file or directory",
        "UserWarning: Failed to load image Python extension: libtorch_cuda_cu.so: cannot open shared object file",
        "UserWarning: Warning: The /usr/local/Ascend/ascend-toolkit/latest owner does not match the current owner.",
        "Warning: Device do not support double dtype now, dtype cast repalce with float.",
    ],
)
def test_lines_that_look_like_faults_are_called_harmless(line):
    found = [match.signature for match in TABLE.searcher(line.encode()).search(line)]
    assert [one.role for one in found if one] == ["harmless"]


def test_vllm_without_its_cuda_part_is_called_harmless():
    line = """[_custom_ops.py:21] Failed to import from vllm._C with ModuleNotFoundError("No module named 'vllm._C'")"""
    found = [match.signature for match in TABLE.searcher(line.encode()).search(line)]
    assert [(one.name, one.role) for one in found if one] == [("vllm-c-missing", "harmless")]


def test_a_needle_is_long_enough_to_be_rare():
    short = {one.name for one in TABLE.signatures if one.kind == "message" and len(one.needle.encode()) < 4}
    assert short == set()
