"""Made-up logs for `benchmarks/doctor.py`: plogs, logs of Python, JSON lines, and the logs of many ranks.

    python benchmarks/doctor_logs.py FOLDER --megabytes 1024 [--files 16] [--kind plog|python|json]

The lines have the forms that CANN and training scripts print; every number in them is drawn. One line in 40 is a
warning, one in 400 an error of a retry, and the error that ends the run stands at the end of the last file.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2024, 11, 28, 10, 0, 0)
_QUIET = (
    ("RUNTIME", "stream.cc:{a}]{t} [{t}]Setup:stream setup, stream_id={a}, sq_id={b}, cq_id={b}, flags=0x{h}."),
    ("RUNTIME", "api_c_memory.cc:{a}]{t} rtMalloc:malloc, addr=0x{h}, size={c}, ret=0, type={b}."),
    ("RUNTIME", "engine.cc:{a}]{t} [{t}]SubmitTask:stream_id={b}, task_id={c}, task_type={b} (AICORE), head={a}"),
    ("RUNTIME", "task_recycle.cc:{a}]{t} RecycleTask:recycle finished, device_id=0, stream_id={b}, limit={c}"),
    ("GE", "graph_manager.cc:{a}]{t} [{t}]Run:graph_id:{b}, session_id:{b}, start to run graph, return code:0"),
    ("GE", "ops_kernel_builder.cc:{a}]{t} CalcOpRunningParam:op[MatMul_{c}], output size:{c}, check success."),
    ("GE", "mem_assigner.cc:{a}]{t} AssignMemory:[IMAS]Set atomic_{c} name[trans_TransData_{b}] offset[{c}] size[{a}]"),
    ("HCCL", "hccl_impl.cc:{a}]{t} [{t}][HcclAllReduce]Entry-tag[Sum_0x{h}], count[{c}], dataType[fp16], op[sum]"),
    ("ASCENDCL", "memory.cpp:{a}]{t} [{t}]aclrtMemcpy: start to execute, destMaxSize = {c}, srcSize = {c}, kind = {b}"),
    ("TDT", "log.cpp:{a}]{t} [TsdClient][deviceId={b}] OpenTsd success, not found custom config, use default"),
    ("PROFILING", "prof_acl.cpp:{a}]{t} >>> (tid:{t}) not in profiling state, exit process quietly"),
    ("FE", "fe_graph_optimizer.cc:{a}]{t} OptimizeOriginalGraph:node [Conv2D_{c}] format 3 to 4, ({a},{b},{b},{a})"),
    ("AICPU", "aicpu_engine.cc:{a}]{t} LoadKernel:kernel so libcpu_kernels.so loaded, handle 0x{h}, errcode:0"),
)  # fmt: skip
_WARNINGS = (
    ("GE", "build_graph.cc:{a}]{t} CheckValue:attr _fuzz_build of node[Add_{c}] does not exist, default is taken"),
    ("RUNTIME", "driver.cc:{a}]{t} GetDeviceInfo:feature not support, drv retCode={b}, module={b}, info type={a}"),
)
_ERRORS = (
    ("HCCL", "transport_link.cc:{a}]{t} [Retry][Connect]link to rank[{b}] was refused, errNo[0x{h}], retry times[{b}]"),
)
LAST_ERROR = (
    "EI0002: [PID: 4242] 2024-11-28-13:59:30.645.648 The wait execution of the Notify register times out. "
    "Reason: The Notify register has not received the Notify record from remote rank [7]."
)


def plog_lines(seed: int = 0, start: datetime = START) -> Iterator[str]:
    """Yield lines of a plog without end."""
    draw = random.Random(seed)
    pid, time = draw.randrange(1000, 900000), start
    threads = [draw.randrange(1000, 900000) for _ in range(24)]
    while True:
        time += timedelta(microseconds=draw.randrange(20, 4000))
        lot = draw.random()
        level, forms = ("INFO", _QUIET)
        if lot < 1 / 400:
            level, forms = ("ERROR", _ERRORS)
        elif lot < 1 / 40:
            level, forms = ("WARNING", _WARNINGS)
        module, form = draw.choice(forms)
        text = form.format(
            a=draw.randrange(1, 4000), b=draw.randrange(64), c=draw.randrange(1 << 24), h=f"{draw.getrandbits(44):x}",
            t=draw.choice(threads),
        )  # fmt: skip
        stamp = f"{time:%Y-%m-%d-%H:%M:%S}.{time.microsecond // 1000:03}.{time.microsecond % 1000:03}"
        yield f"[{level}] {module}({pid},python):{stamp} [{text}"


def python_lines(seed: int = 0, start: datetime = START) -> Iterator[str]:
    """Yield lines of a training script's log without end."""
    draw = random.Random(seed)
    time, step = start, 0
    while True:
        step += 1
        time += timedelta(milliseconds=draw.randrange(20, 400))
        stamp = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}"
        yield (
            f"{stamp} - INFO - trainer.py:212 - step {step}/100000 loss {draw.random():.6f} lr {draw.random():.3e} "
            f"grad_norm {draw.random():.4f} tokens/s {draw.randrange(90000)} val error {draw.random():.4f}"
        )


def json_lines(seed: int = 0, start: datetime = START) -> Iterator[str]:
    """Yield lines of a log in JSON without end, as container engines keep them."""
    for line in python_lines(seed, start):
        yield json.dumps({"log": line + "\n", "stream": "stdout", "time": f"{start:%Y-%m-%dT%H:%M:%S}.645Z"})


KINDS: dict[str, Callable[[int, datetime], Iterator[str]]] = {
    "plog": plog_lines, "python": python_lines, "json": json_lines,
}  # fmt: skip
_CHUNK_BYTES = 16 * 2**20
"""Lines are drawn for so many bytes; a longer file repeats them with later hours in their stamps."""


def write_log(path: Path, size_bytes: int, *, kind: str = "plog", seed: int = 0, last: str = "") -> None:
    """Write a log of about `size_bytes`, its times rising, with `last` as its last line."""
    lines, drawn, size = KINDS[kind](seed, START), [], 0
    for line in lines:
        drawn.append(line)
        size += len(line) + 1
        if size >= min(size_bytes, _CHUNK_BYTES):
            break
    chunk = ("\n".join(drawn) + "\n").encode()
    with path.open("wb") as file:
        for day in range(max(1, round(size_bytes / len(chunk)))):
            date = START + timedelta(days=day)
            again = chunk.replace(b"2024-11-28", f"{date:%Y-%m-%d}".encode())
            letters = bytes(b"abcdef"[day // 6**place % 6] for place in range(4))
            file.write(again.replace(b"_0x", b"_" + letters))  # names with numbers in hexadecimal come once only
        if last:
            file.write(last.encode() + b"\n")


FAILED, SILENT, MISSING = 517, 77, range(1000, 1004)
"""Of the ranks: the one with the cause, the one that hangs, those without a log."""
_CAUSE = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 5; 60.96 GiB total capacity)"


def write_ranks(folder: Path, num_ranks: int, bytes_each: int) -> None:
    """Write a log of each rank: one runs out of memory, one hangs, the others wait for them until the timeout."""
    chunk = "".join(f"{line}\n" for line, _ in zip(plog_lines(7), range(2 * bytes_each // 130), strict=False)).encode()
    chunk = chunk[: chunk.rindex(b"\n", 0, min(len(chunk), bytes_each, _CHUNK_BYTES)) + 1]
    for rank in set(range(num_ranks)) - set(MISSING):
        letters = bytes(b"abcdef"[rank // 6**place % 6] for place in range(4))
        shift = timedelta(seconds=31 if rank // 8 == 1 else 0)
        with (folder / f"rank_{rank}.log").open("wb") as file:
            file.write("".join(map("{}\n".format, _barriers(rank, num_ranks, shift))).encode())
            for _ in range(max(1, round(bytes_each / len(chunk)))):
                file.write(chunk.replace(b"_0x", b"_" + letters))
            file.write("".join(map("{}\n".format, _end(rank, shift))).encode())


def _barriers(rank: int, num_ranks: int, shift: timedelta) -> Iterator[str]:
    for number in (1, 2):
        time = START + timedelta(minutes=-number) + shift
        yield (
            f"[rank{rank}]: {time:%Y-%m-%d %H:%M:%S},100 - torch.distributed.distributed_c10d - INFO - Rank {rank}: "
            f"Completed store-based barrier for key:store_based_barrier_key:{number} with {num_ranks} nodes."
        )


def _end(rank: int, shift: timedelta) -> Iterator[str]:
    cause, timeout = START + timedelta(hours=3) + shift, START + timedelta(hours=3, minutes=20) + shift
    if rank == FAILED:
        yield f"{cause:%Y-%m-%d %H:%M:%S},200 - INFO - step 700"
        yield from ("Traceback (most recent call last):", '  File "train.py", line 41, in main', "    step()", _CAUSE)
    elif rank == SILENT:
        yield f"{cause - timedelta(minutes=9):%Y-%m-%d %H:%M:%S},300 - INFO - loading batch 699 from /data/shard-7"
    else:
        yield LAST_ERROR.replace("2024-11-28-13:59:30", f"{timeout:%Y-%m-%d-%H:%M:%S}")


def main() -> None:
    """Write the logs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024, help="of all files together (2**20 bytes)")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--kind", choices=list(KINDS), default="plog")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for index in range(options.files):
        last = LAST_ERROR if index == options.files - 1 else ""
        size = options.megabytes * 2**20 // options.files
        write_log(options.folder / f"plog-{index}.log", size, kind=options.kind, seed=index, last=last)


if __name__ == "__main__":
    main()
