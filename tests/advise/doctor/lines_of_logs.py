"""Lines of logs for tests: what a person takes for an error, what is at most a warning, and what only tempts."""

ERRORS = r"""
KeyError: 'lr'
torch.OutOfMemoryError: NPU ran out
ray.exceptions.RayTaskError(ValueError): ray::train() (pid=4711, ip=10.0.0.3)
subprocess.TimeoutExpired: Command 'npu-smi' timed out after 30 seconds
AssertionError
KeyboardInterrupt
StopIteration exception
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
MyOwnError: the widget is bent
XyzError:
  ValueError: no such head
raise by worker: SomethingException: bad
KeyError                                  Traceback (most recent call last)
╭──────────────────── Traceback (most recent call last) ────────────────────╮
Traceback (most recent call last):
Traceback (most recent call first):
2025-01-02 03:04:05,123 ERROR trainer the pump stopped
2025-01-02 03:04:05,123 - trainer - ERROR - the pump stopped
2025-01-02 03:04:05.123 | ERROR    | mod.a:func:12 - the pump stopped
2025-01-02 03:04:05.123 | CRITICAL | mod.a:func:12 - the pump stopped
[2025-01-02, 03:04:05 UTC] {taskinstance.py:1824} ERROR - Task went wrong
[2025-01-02T03:04:05.123+0000] {local_task_job_runner.py:240} INFO - Task exited with return code 1
[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO - RuntimeError: the pump stopped
ERROR 12-30 10:00:00 [core.py:68] EngineCore hit a problem
ERROR 12-30 10:00:00 core.py:68] EngineCore hit a problem
(EngineCore_DP0 pid=71) ERROR 11-12 10:00:00 [core.py:68] EngineCore hit a problem
(EngineCore_DP0 pid=71) (Worker_TP0 pid=72) ERROR 11-12 10:00:00 [core.py:68] the pump stopped
(raylet) [2024-01-01 10:00:00,123 E 123 456] (raylet) node_manager.cc:3071: 1 Workers (tasks / actors) gone
(train pid=123, ip=10.0.0.3) ValueError: no [repeated 7x across cluster]
[2024-01-01 10:00:00,123] [ERROR] [launch.py:325:sigkill_handler] the pump stopped
[ERROR|trainer.py:2314] 2024-12-01 10:00:00,123 >> the pump stopped
[NeMo E 2024-01-01 10:00:00 exp:12] the pump stopped
ERROR:root:the pump stopped
ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use
[12/30/24 10:00:00] ERROR    the pump stopped                      main.py:12
[ERROR] the pump stopped
[error] the pump stopped
[FATAL] the pump stopped
CRITICAL:app:the pump stopped
SEVERE: the pump stopped
level=error msg="the pump stopped"
time="2024-01-01T10:00:00Z" level=fatal msg="the pump stopped"
2024-11-28T11:59:30.645Z	ERROR	controller	the pump stopped
2024-01-01T10:00:00.123456Z ERROR tokio_thing::runtime: the pump stopped
{"level":"error","msg":"the pump stopped"}
{"severity":"CRITICAL","message":"the pump stopped"}
{"log":"RuntimeError: the pump stopped\n","stream":"stderr","time":"2025-01-02T03:04:05.1Z"}
E0512 10:00:00.123456 123 reader.cc:88] short read
F0512 10:00:00.123456 123 reader.cc:88] short read
E0412 data_loader.cc:88] Unexpected
[E102 03:04:05.123456 ProcessGroupHCCL.cpp:616] the pump stopped
[rank3]:[E102 03:04:05.123456 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout
2024-01-01 10:00:00.123456: E tensorflow/core/common_runtime/executor.cc:1193] the pump stopped
2024-01-01 10:00:00.123456: F tensorflow/core/platform/env.cc:12] the pump stopped
[ERROR] DEVICE(4711,7f32,python):2024-01-01-10:00:00.123.456 [mindspore/ccsrc/a.cc:12] Init] the pump stopped
[ERROR] RUNTIME(4711,python):2024-01-01-10:00:00.123.456 [engine.cc:14]4711 Strange: the pump stopped
[CRITICAL] CORE(4711,7f32,python):2024-01-01-10:00:00.123.456 [a.cc:12] Run] the pump stopped
Segmentation fault
Segmentation fault (core dumped)
train.sh: line 12:  4711 Segmentation fault      (core dumped) python train.py
bash: line 1: 4711 Killed                  python train.py
Killed
./run.sh: line 3: 4711 Killed python train.py --error-log=x
Aborted
Aborted (core dumped)
Aborted!
Bus error
Bus error (core dumped)
Illegal instruction (core dumped)
Floating point exception
Fatal Python error: Segmentation fault
Current thread 0x00007f32 (most recent call first):
terminate called after throwing an instance of 'c10::Error'
terminate called without an active exception
  what():  Unknown
free(): invalid pointer
double free or corruption (!prev)
corrupted size vs. prev_size
malloc(): invalid size (unsorted)
*** stack smashing detected ***: terminated
pure virtual method called
==4711==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6020
python: malloc.c:2617: sysmalloc: Assertion `old_top' failed.
Program received signal SIGSEGV
process 12 received SIGABRT
[launch.py:315:sigkill_handler] Killing subprocess 4711, exits with return code = -9
  exitcode  : -9 (pid: 4711)
  exitcode  : 1 (pid: 4711)
  traceback : Signal 9 (SIGKILL) received by PID 4711
failed (exitcode: -11) local_rank: 3 (pid: 4711) of binary: /usr/bin/python3
mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).
Primary job  terminated normally, but 1 process returned a non-zero exit code.
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD with errorcode 1.
srun: error: node07: task 3: Exited with exit code 1
srun: error: node07: task 3: Killed
slurmstepd: error: *** STEP 33.0 ON n7 CANCELLED AT 2025-01-02T03:04:05 ***
slurmstepd: *** JOB 33 ON n7 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT ***
subprocess.CalledProcessError: Command '['python', 'a.py']' returned non-zero exit status 1.
Command '['python']' died with <Signals.SIGKILL: 9>.
child process returned, exit status: 137
container exited (137)
Exited (137) 3 minutes ago
      Reason:       OOMKilled
      Exit Code:    137
train-0   0/1     CrashLoopBackOff   5 (2m ago)   10m
train-0   0/1     OOMKilled   0   10m
Warning  FailedScheduling  12s  default-scheduler  0/4 nodes are available: 4 Insufficient huawei.com/Ascend910.
Warning  Failed     12s (x3 over 60s)  kubelet  Error: ErrImagePull
Warning  BackOff    2s (x7 over 61s)   kubelet  Back-off restarting failed container train in pod train-0
Warning  Evicted    12s  kubelet  The node was low on resource: memory.
train.service: Main process exited, code=killed, status=9/KILL
train.service: Main process exited, code=exited, status=1/FAILURE
train.service: Failed with result 'signal'.
Jan 02 03:04:05 node7 kernel: python[4711]: segfault at 0 ip 00007f32 sp 00007ffe error 4 in libc.so
[519308.099433] python invoked oom-killer: gfp_mask=0x100cca
[519308.099433] Memory cgroup out of memory: Killed process 994362 (python)
[519308.099433] INFO: task python:4711 blocked for more than 120 seconds.
[519308.099433] EXT4-fs error (device sda1): ext4_find_entry:1455
Exception in thread "main" java.lang.NullPointerException
Caused by: java.io.IOException: no
panic: runtime error: index out of range [3] with length 3
fatal error: all goroutines are asleep - deadlock!
thread 'main' panicked at src/main.rs:2:5:
error[E0382]: borrow of moved value: `x`
Unhandled exception. System.NullReferenceException: Object reference not set
npm ERR! code ELIFECYCLE
UnhandledPromiseRejectionWarning: x
make: *** [Makefile:3: train] Error 1
make[2]: *** [CMakeFiles/x.dir/build.make:76: x.o] Error 1
ninja: build stopped: subcommand failed.
FAILED: csrc/x.o
csrc/x.cpp:12:5: error: 'foo' was not declared in this scope
csrc/x.cpp:3:10: fatal error: acl/acl.h: No such file or directory
collect2: error: ld returned 1 exit status
/usr/bin/ld: cannot find -lascendcl
x.o: undefined reference to `aclInit'
CMake Error at CMakeLists.txt:3 (find_package):
-- Configuring incomplete, errors occurred!
ERROR: Could not find a version that satisfies the requirement torch_npu
ERROR: No matching distribution found for torch_npu
error: subprocess-exited-with-error
ERROR: Failed building wheel for apex
E: Unable to locate package libfoo
Error: Unable to find a match: libfoo
fatal: not a git repository (or any of the parent directories): .git
bash: line 3: torchrun: command not found
sh: 1: torchrun: not found
bash: ./run.sh: No such file or directory
bash: ./run.sh: Permission denied
python: can't open file '/w/trian.py': [Errno 2] No such file or directory
train.py: error: unrecognized arguments: --nope
run.sh: line 3: syntax error near unexpected token `fi'
run.sh: line 3: ASCEND_HOME: unbound variable
/bin/python: cannot execute binary file: Exec format error
cat: x.txt: No such file or directory
ImportError: libascendcl.so: cannot open shared object file: No such file or directory
python: error while loading shared libraries: libhccl.so
symbol lookup error: libtorch_npu.so: undefined symbol: _ZN3c10
libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by x)
	libascendcl.so => not found
OSError: [Errno 28] No space left on device
write /data/x: No space left on device
cp: cannot create regular file '/data/x': Read-only file system
fork: Cannot allocate memory
ssh: connect to host node7 port 22: Connection refused
ssh: Could not resolve hostname node7: Name or service not known
connect to 10.0.0.1:29500 failed: No route to host
worker 3 failed with exit code 9
[worker 3] failed with exit code 9
rank 0 failed
node: 0 crashed
Finished with 3 errors
1 failed, 3 passed, 0 errors
no errors in stage 1; stage 2: error: out of range
error 5: bad input
Timed out waiting for 8 workers to join
unable to allocate 3.2 GiB for an array
test error: the model has no weights
validation error occurred in worker
error: no device
job ended, rc=139
loss is NaN at step 33, stopping training
Max retries exceeded with url: /x
connect failed after 5 retries, giving up
NCCL WARN Call to connect returned Connection refused, giving up
RuntimeError: HCCL error in: ProcessGroupHCCL.cpp:1
hcclCommInitRootInfo failed, ret 4
an internal error occurred
HTTP 500 Internal Server Error
段错误 (核心已转储)
./run.sh: 第 3 行: 4711 已杀死               python train.py
bash: torchrun：未找到命令
python: 无法打开文件“trian.py”: [Errno 2] 没有那个文件或目录
make: *** [Makefile:3：train] 错误 1
错误：找不到模型权重
训练失败，请检查配置
2025-01-02 03:04:05,123 - trainer - ERROR - 加载数据
[ERROR] 模型转换失败
发生异常: 数据维度不匹配
rank 3 连接超时
进程 4711 异常退出
模型加载出错
第 3 步无法分配显存
cp: 写入 '/data/x' 时出错: 设备上没有空间
[rank0]: ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 256])
torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL
torch.multiprocessing.spawn.ProcessRaisedException:
-- Process 1 terminated with the following error:
RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory
ERROR conda.cli.main_run:execute(125): `conda run python x.py` failed. (See above for error)
[ERROR] TBE(1234,python3):2024-01-02-03:04:05.123.456 [te_fusion]compile failed
[CRITICAL] [2024-01-01 10:00:00] [worker] lost
nvidia-smi: command not found
npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file
dlopen failed: libascend_hal.so: cannot open shared object file: No such file or directory
/usr/bin/ld: cannot find -lhccl: No such file or directory
Error: Could not find or load main class org.apache.spark.deploy.SparkSubmit
java.lang.OutOfMemoryError: Java heap space
Error from server (NotFound): pods "train-0" not found
error: unable to upgrade connection: container not found ("worker")
FATAL:  password authentication failed for user "x"
psql: error: connection to server failed
The node had condition: [DiskPressure].
Liveness probe failed: HTTP probe failed with statuscode: 503
MountVolume.SetUp failed for volume "data" : mount failed: exit status 32
Job has reached the specified backoff limit
pod/train-0 Error
train-0   0/1   Error   0   3m
slurmstepd: error: Exceeded job memory limit
sbatch: error: Batch job submission failed: Invalid partition name specified
salloc: error: Unable to allocate resources: Requested node configuration is not available
ORTE was unable to reliably start one or more daemons.
A process has executed an operation involving a call to the "fork()" system call; job aborted
[node1:12345] *** Process received signal ***
[node1:12345] Signal: Segmentation fault (11)
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 139
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
Thread 1 "python" received signal SIGSEGV, Segmentation fault.
thread '<unnamed>' panicked at 'called `Option::unwrap()` on a `None` value', src/lib.rs:12
tokio-runtime-worker panicked at
pyo3_runtime.PanicException: called `Result::unwrap()` on an `Err` value
System.InvalidOperationException: Sequence contains no elements
TypeError: Cannot read properties of undefined (reading 'x')
Uncaught ReferenceError: x is not defined
SyntaxError: Unexpected token
Error: Cannot find module 'express'
ERR_PNPM_NO_MATCHING_VERSION  No matching version found
yarn: command failed
error TS2304: Cannot find name 'x'.
main.go:12:2: undefined: foo
exit status 2
FAIL	example.com/pkg	0.01s
--- FAIL: TestX (0.00s)
FAILED tests/test_x.py::test_y - AssertionError
E       assert 1 == 2
ERROR tests/test_x.py - ModuleNotFoundError: No module named 'x'
!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!
CMake Error: The source directory does not exist.
gmake[2]: *** [CMakeFiles/x.dir/build.make:76: x.o] Error 1
c++: fatal error: Killed signal terminated program cc1plus
x.cu(12): error: identifier "foo" is undefined
nvcc fatal   : Unsupported gpu architecture 'compute_90'
ld: library not found for -lfoo
x.cpp:12: undefined reference to 'foo()'
configure: error: C compiler cannot create executables
dpkg: error processing package foo (--configure):
Errors were encountered while processing:
E: Sub-process /usr/bin/dpkg returned an error code (1)
W: Failed to fetch http://x/InRelease  Could not resolve 'x'
Error: Failed to download metadata for repo 'base'
error: Failed dependencies:
pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): Read timed out.
  error: subprocess-exited-with-error
  x  python setup.py bdist_wheel did not run successfully.
  |  exit code: 1
fatal: unable to access 'https://x/': Could not resolve host: x
docker: Error response from daemon: OCI runtime create failed: unknown.
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
level=fatal msg="failed to load"
panic: send on closed channel [recovered]
rsync error: some files could not be transferred (code 23) at main.c(1330)
scp: /data/x: No such file or directory
mkdir: cannot create directory '/data': Permission denied
rm: cannot remove '/data': Device or resource busy
tar: Exiting with failure status due to previous errors
tar: x.tgz: Cannot open: No such file or directory
gzip: stdin: unexpected end of file
zip I/O error: No space left on device
curl: (7) Failed to connect to 10.0.0.1 port 80: Connection refused
wget: unable to resolve host address 'x'
ssh_exchange_identification: Connection closed by remote host
Host key verification failed.
Permission denied (publickey,password).
kex_exchange_identification: read: Connection reset by peer
bash: /usr/local/Ascend/set_env.sh: No such file or directory
./x.sh: line 12: syntax error: unexpected end of file
./x.sh: line 9: 12345 Aborted                 (core dumped) ./a.out
-bash: python3.9: command not found
sh: 1: Syntax error: "(" unexpected
env: 'python': No such file or directory
OSError: [Errno 12] Cannot allocate memory
BrokenPipeError: [Errno 32] Broken pipe
ConnectionResetError: [Errno 104] Connection reset by peer
OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.
Intel MKL FATAL ERROR: Cannot load libmkl_avx512.so.
libgomp: Thread creation failed: Resource temporarily unavailable
OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable
ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by x.so)
ImportError: cannot import name 'x' from 'y' (z.py)
RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error.
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
(raylet) A worker died or was killed while executing a task by an unexpected system error.
A worker died or was killed while executing a task by an unexpected system error
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
ERROR:asyncio:Task exception was never retrieved
RuntimeError: Engine process failed to start. See stack trace for the root cause.
NCCL error: unhandled system error
node1:12:34 [0] NCCL WARN Net : Connection closed by remote peer
[E ProcessGroupHCCL.cpp:1234] [Rank 3] Watchdog caught collective operation timeout: WorkHCCL(OpType=ALLREDUCE)
some ranks timed out in rendezvous
RendezvousTimeoutError
torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect
[2024-01-01 10:00:00,123] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1)
launcher: child 3 (pid 4711) died
worker 5 disconnected unexpectedly
training diverged: loss is nan
Loss became NaN, aborting
Checkpoint is corrupted
checksum mismatch for model.safetensors
hash mismatch
data shard 12 is missing
file truncated: model.bin
EOFError: Ran out of input
*** Aborted at 1700000000 (unix time) ***
*** SIGSEGV (@0x0) received by PID 12 ***
Check failure stack trace:
F0102 03:04:05.123456 12 x.cc:3] Check failed: a == b
Hardware Error: Uncorrected error
mce: [Hardware Error]: Machine check events logged
EDAC MC0: 1 UE memory read error
nfs: server 10.0.0.1 not responding, timed out
XFS (sda1): Corruption detected
Kernel panic - not syncing: Fatal exception
watchdog: BUG: soft lockup - CPU#3 stuck for 23s!
INFO: rcu_sched self-detected stall on CPU
ascend_drv: device lost
device 3 heartbeat lost
link down on device 3
traps: python[12] general protection fault ip:7f
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)
Task in /docker/x killed as a result of limit of /docker/x
systemd[1]: train.service: A process of this unit has been killed by the OOM killer.
systemd[1]: Failed to start Train.
Job <123> is killed: TERM_MEMLIMIT
TERM_OWNER: job killed by owner.
Exited with exit code 1.
Error code: 5
status: FAILED
result=FAILURE
"status": "failed"
state=FAILED ExitCode=1:0
Build FAILED
BUILD FAILURE
Test run aborted
job aborted
Aborting.
Stopping because of an error
Uncaught exception:
Something went wrong
An unexpected error has occurred
Internal error: bad state
Invalid argument
invalid device ordinal
illegal memory access was encountered
not enough memory
cannot allocate
out of memory
Timeout waiting for rank 3
timeout expired
deadlock detected
""".strip("\n").split("\n")

AT_MOST_WARNINGS = r"""
Connection refused, retrying in 5 s
WARNING: connect failed, will retry (attempt 1/5)
ERROR download failed, retrying in 3 seconds
2025-01-02 03:04:05,123 WARNING trainer could not read the cache
WARNING 12-30 10:00:00 [registry.py:68] failed to import triton, skipping
[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot assign it).
Failed to import apex, falling back to native layers
Could not load the fast tokenizer, using the slow one instead
/x/y.py:12: UserWarning: Failed to load the widget extension
Exception ignored in: <function _releaseLock at 0x7f32>
[WARNING] HCCL(4711,python):2024-01-01-10:00:00.123.456 [a.cc:1]1 bind failed
Attempt 2 of 5 failed: connection reset by peer
failed to connect to etcd, reconnecting
连接失败，3 秒后重试
警告：缓存加载失败
./x.sh: line 12: [: too many arguments
./run_and_time.sh: line 24: [: : integer expression expected
""".strip("\n").split("\n")

CLEAN = r"""
epoch 3 Top-1 error 23.4 Top-5 error: 7.01
val error rate: 0.12
val error 0.1
finished with 0 errors
0 errors, 0 warnings
Found 0 errors in 12 files (checked 12 source files)
no errors found, without failure
No errors found
No errors found.
error rate 0.1, no error
step 3 error_rate=0.1 loss=0.4
loss_error=0.3 grad_error=1e-3
no failure detected
errors=0 failures=0
error_code=0
ret=0, retcode: 0, error code is 0
12 passed, 0 failed in 3.2s; 0/128 failed, 0 timeouts
failed requests: 0
failed: 0
failed: 0, errors: 0, exit status 0
Number of failed steps: 0; skipped 0; aborted 0; killed 0
No exceptions were raised. Errors: none
Job finished successfully (no errors or failures)
Training finished without errors.
process exited with code 0
Process finished with exit code 0
Exited (0) 3 minutes ago
exit code: 0
{"level":"info","error":null,"errors":[],"failed":false,"exception":""}
{"level":"info","msg":"step 3","error":0}
mean absolute error: 0.33, root mean squared error = 1.2e-3, max error: 12
WER (word error rate) 12.3% | CER 4.5%
Reconstruction error per layer: [0.1, 0.2]
| epoch | train error | val error |
MeanSquaredError: 0.12
MeanAbsoluteError: 1.5e-3
quantization error is below 1e-3 for all layers
mse error decreased from 0.3 to 0.2
generalisation error curve saved to error.png
wrote error.log
logs go to /var/log/error/train.txt
tee -a error.log
cp errors.py /data/errors/2024
TORCH_NCCL_ASYNC_ERROR_HANDLING=1 --ignore-errors --max-errors 3
python train.py --on-error=abort --fail-fast --error-log out/error.txt
Namespace(on_error='raise', fail_fast=True, max_failures=3, error_if_nonfinite=False)
Registered exception handlers
signal handler for SIGTERM, SIGINT installed
out of memory guard: off
max_error_count = 5, on_failure=retry, error_handling: strict
restartPolicy: OnFailure
restart policy: on-failure
State: Terminated
timeout=1800 warmup=3 limit=5
(error_feedback): ErrorFeedback(in_features=8, out_features=8)
ErrorFeedback(momentum=0.9)
module ErrorHandler loaded
class ErrorFeedback(nn.Module):
from jumar.errors import InputError
import traceback
        raise ValueError("the model has no weights")
    except RuntimeError as error:
    except Exception:
        logger.error("failed to load %s", path)
    print("failed")
    if err != nil {
        assert x == y, "check failed"
   41 |         raise RuntimeError("exit code 1")
# error handling: abort the run when a rank fails
    # raises an error if the file is missing
// error: this is a comment
        ValueError: If the shapes differ.
    Raises:
        RuntimeError: When no device is found.
  --on-error {abort,continue}  what to do on error
  -e, --errors N               stop after N errors
usage: train.py [-h] [--fail-on ERROR]
Stop the run if a worker fails.
The job is restarted when a rank failed or crashed.
Calls may fail if the device is busy
error handling enabled
Error tracking enabled
Error reporting is on
Using error feedback compression
error correction: on
fault tolerance: enabled; error recovery enabled
errors='ignore' encoding='utf-8'
FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated; this will be an error in a future release.
DeprecationWarning: invalid escape sequence '\d'; will raise an error
/x/y.py:12: DeprecationWarning: the old form fails from version 3
WARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
[INFO] GE(4711,python):2024-01-01-10:00:00.123.456 [a.cc:1]1 error code 0, failed num 0
[EVENT] RUNTIME(4711,python):2024-01-01-10:00:00.123.456 [a.cc:1]1 register error callback
[INFO] RUNTIME(4711,python):2024-01-01-10:00:00.123.456 [a.cc:1]1 set fail callback
INFO 12-30 10:00:00 [launcher.py:29] Route: /error, Methods: GET
INFO:     10.0.0.1:1234 - "GET /errors HTTP/1.1" 200 OK
2025-01-02 03:04:05,123 INFO trainer error budget 3, errors so far 0
got significant improvement with signal processing
saved checkpoint to out/model.pt
loss 0.31 grad norm 1.2
Downloading fatal-1.0.tar.gz
Successfully installed exceptiongroup-1.2.2 tenacity-9.0.0
collected 12 items / 0 errors
=== 12 passed, 1 xfailed in 3.2s ===
The kernel was killed 0 times
retry policy: 3 attempts, backoff 2 s
set -o errexit
+ set -e
+ echo failed to start
trap 'exit 1' ERR
-- Performing Test HAVE_FLAG_Wno_error - Success
gcc -Wall -Werror=format -fno-exceptions -c x.c
Compiling with -Werror and -Wfatal-errors
NPU error count: 0
Total Errors: 0
ECC errors: 0 corrected, 0 uncorrected
num_failures 0 num_errors 0
| ERROR | 0 |
ERROR: 0
ERROR rate: 0.12
absolute error below the tolerance
The relative error of the outputs is 1.3e-6
prediction error (rmse) 0.3
Bellman error 0.12 td_error 0.3
training set error = 0.031
Loading checkpoint shards: 100%|██████████| 4/4 [00:03<00:00]
Epoch 1: 100%|████| 100/100 [00:10<00:00, 9.8it/s, loss=0.5, err=0.1]
INFO:__main__:max_grad_norm=1.0, skip_errors=True
Using FailoverPolicy with max_failures=3
FailureDetector started
torch.autograd.set_detect_anomaly is on; errors will be reported with a traceback
eval_wer: 0.12, eval_cer: 0.03
L1 error = 0.003
test err: 3.2%
reprojection error: 0.45 px
error: 0.0032
Error: 0.12 (threshold 0.2)
max abs error 1e-5 OK
PASS: error within tolerance
allclose passed (max error 1.2e-07)
num_errors=0, num_warnings=2
errors: 0 | warnings: 3 | failed tests: none
Retries: 0, Failures: 0
0 of 128 workers failed
No failed jobs
none failed
Tests run: 12, Failures: 0, Errors: 0, Skipped: 1
Ran 12 tests in 0.3s
OK (skipped=1)
All checks passed
collected 0 items / 3 deselected
successfully recovered
Error handler installed
Installing error-prone-2.0
Requirement already satisfied: exceptiongroup>=1.0 in /x/lib
Collecting failsafe==1.0
Downloading tenacity_error-1.0-py3-none-any.whl
Preparing to unpack .../liberror-perl_0.17029-1_all.deb ...
Unpacking liberror-perl (0.17029-1) ...
Setting up libgpg-error0:amd64 (1.43-3) ...
checking for error_at_line... yes
checking whether the C compiler works... yes
-- Looking for strerror_r - found
gcc -c -o strerror.o strerror.c -Werror
[ 50%] Building CXX object CMakeFiles/x.dir/src/error.cc.o
copying build/lib/pkg/errors.py -> /x/errors.py
rank 0: total_loss 0.5 (error term 0.1)
[INFO] Errors will be written to /tmp/err.log
errors.log
log_error_verbosity = default
ERROR_LOG=/tmp/x.log
export PYTHONFAULTHANDLER=1
set -euo pipefail
exit 0
+ exit 0
return code 0
rc=0
ExitCode=0:0 State=COMPLETED
Exited with exit code 0
status=success error=null
{"status":"ok","errors":[],"failures":0,"error_message":""}
{"level":"debug","msg":"retry policy for errors","max":3}
timeout set to 1800 s
Waiting for rendezvous (timeout 600 s)
deadlock detection enabled
kill signal handler registered
SIGTERM handler installed
on SIGTERM the worker saves a checkpoint
the crash handler is on
crash-safe writes enabled
Panic mode: off
fatal_errors=False
abort_on_nan: true
Dropout(p=0.1), StochasticFailure(p=0.0)
class names: ['failure', 'error', 'ok']
labels: 0=normal 1=error 2=fatal
label 'killed' has 12 samples
token "error" id 1234
vocab: exception, failed, killed
Q: What is a segmentation fault? A: ...
prompt: Write a program that raises an exception
generated: "The error was fixed."
sentence: the plane crashed into the sea
Found 3 classes: abort, error, panic
dataset: error_detection_v2
task=crash_prediction metric=failure_rate value=0.3
failure_rate: 0.02
fail rate 0%
DeprecationWarning: pkg_resources is deprecated as an API
UserWarning: Detected call of lr_scheduler.step() before optimizer.step()
WARNING: Running pip as the 'root' user can result in broken permissions
warnings.warn(
Warning: no access token given
GET /api/errors?limit=3 200
"GET /static/error.css HTTP/1.1" 304
2024-01-01 10:00:00 [notice] 12#12: start worker processes
2024-01-01 10:00:00 INFO Slow query log: 0 errors
Checkpoint 'before_crash' loaded
branch fix/error-handling is up to date
commit 1a2b: fix crash on empty input
Merge pull request #12 from x/fix-failed-upload
* fix: failed uploads are tried again
- error messages are clearer now
## Errors
### Known failures
| error | meaning |
Docs: see errors.md for all exceptions
Exit on first error: False
训练完成，没有错误
错误数: 0，失败次数：0
错误率 0.12
词错误率: 3.2%
无异常
未发生错误
0 个错误，0 个警告
平均误差 0.03
异常检测已开启
错误日志写入 /tmp/a.txt
失败重试次数 3
超时时间设置为 1800 秒
如果失败则退出
错误码: 0
第 3 轮 损失 0.5
INFO: could not find a configuration file, using defaults
n45:2527565:2527565 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v5 symbol.
Error in cpuinfo: prctl(PR_SVE_GET_VL) failed
2025-02-09 09:37:32.33: E x/a.cc:9] Unable to register cuDNN factory: Attempting to register factory for plugin X
""".strip("\n").split("\n")
