"""Scripts written the way people write them, with the places that have broken other converters."""

from __future__ import annotations

from textwrap import dedent

from convert_cases import IMPORT, outcome

from jumar.base.findings import Severity


def lines_after(source: str) -> list[str]:
    """The converted lines, without indentation and without the added import."""
    text = outcome(source).after.decode().replace(IMPORT, "")
    return [line.strip() for line in text.splitlines() if line.strip()]


def changed(source: str) -> list[str]:
    """The lines of the converted source that are new."""
    before = {line.strip() for line in dedent(source).splitlines()}
    return [line for line in lines_after(source) if line not in before]


def test_a_custom_op_module_keeps_its_reference_path() -> None:
    source = """
        import torch
        from . import custom_ops

        _plugin = None

        def _init():
            global _plugin
            if _plugin is None:
                _plugin = custom_ops.get_plugin(module_name='bias_act_plugin', sources=['bias_act.cu'])
            return True

        def bias_act(x, b=None, impl='cuda'):
            assert impl in ['ref', 'cuda']
            if impl == 'cuda' and x.device.type == 'cuda' and _init():
                return _bias_act_cuda(x).apply(b)
            return _bias_act_ref(x, b)

        def _should_use_custom_op(input):
            if input.device.type != 'cuda':
                return False
            return any(torch.__version__.startswith(v) for v in ('1.7.', '1.8.'))
    """
    assert changed(source) == []
    judged = [finding for finding in outcome(source).findings if finding.code == "JM108"]
    assert {finding.where.line for finding in judged} == {14, 15, 20}


def test_a_language_model_trainer_is_converted_but_for_the_fused_optimizer() -> None:
    source = """
        import inspect
        import torch
        from contextlib import nullcontext

        device = 'cuda' # examples: 'cpu', 'cuda', 'cuda:0', 'cuda:1' etc., or try 'mps' on macbooks
        dtype = 'bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else 'float16'
        backend = 'nccl' # 'nccl', 'gloo', etc.
        if ddp:
            init_process_group(backend=backend)
            device = f'cuda:{ddp_local_rank}'
            torch.cuda.set_device(device)
        torch.cuda.manual_seed(1337 + seed_offset)
        torch.backends.cuda.matmul.allow_tf32 = True # allow tf32 on matmul
        device_type = 'cuda' if 'cuda' in device else 'cpu' # for later use in torch.autocast
        ctx = nullcontext() if device_type == 'cpu' else torch.amp.autocast(device_type=device_type, dtype=ptdtype)
        scaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float16'))

        def get_batch(split):
            if device_type == 'cuda':
                x, y = x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
            return x, y

        def configure_optimizers(self, weight_decay, device_type):
            fused_available = 'fused' in inspect.signature(torch.optim.AdamW).parameters
            use_fused = fused_available and device_type == 'cuda'
            return torch.optim.AdamW(groups, **(dict(fused=True) if use_fused else dict()))
    """
    assert changed(source) == [
        "device = 'npu' # examples: 'cpu', 'cuda', 'cuda:0', 'cuda:1' etc., or try 'mps' on macbooks",
        "dtype = 'bfloat16' if torch.npu.is_available() and torch.npu.is_bf16_supported() else 'float16'",
        "backend = 'hccl' # 'nccl', 'gloo', etc.",
        "device = f'npu:{ddp_local_rank}'",
        "torch.npu.set_device(device)",
        "torch.npu.manual_seed(1337 + seed_offset)",
        "device_type = 'npu' if 'npu' in device else 'cpu' # for later use in torch.autocast",
        "scaler = torch.amp.GradScaler('npu', enabled=(dtype == 'float16'))",
        "if device_type == 'npu':",
    ]


def test_an_out_of_memory_handler_gets_the_name_that_exists() -> None:
    source = """
        import torch

        if __name__ == '__main__':
            device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
            try:
                train_model(model=model, device=device)
            except torch.cuda.OutOfMemoryError:
                logging.error('Detected OutOfMemoryError!')
                torch.cuda.empty_cache()
                model.use_checkpointing()
    """
    assert changed(source) == [
        "device = torch.device('npu' if torch.npu.is_available() else 'cpu')",
        "except torch.OutOfMemoryError:",
        "torch.npu.empty_cache()",
    ]


def test_an_import_of_nccl_is_an_error_and_never_an_import_that_fails() -> None:
    source = """
        import torch
        import torch.cuda.nccl as nccl
        import torch.distributed as dist

        bf16_ready = torch.version.cuda and torch.cuda.is_bf16_supported() and dist.is_nccl_available() \\
            and nccl.version() >= (2, 10)
    """
    assert "import torch.cuda.nccl as nccl" in lines_after(source)
    errors = [f.where.line for f in outcome(source).findings if f.severity is Severity.ERROR]
    assert errors == [3, 7]


def test_a_device_selector_reports_the_environment_it_sets() -> None:
    source = """
        import os
        import torch

        def select_device(device='', batch_size=0):
            cpu = device.lower() == 'cpu'
            if cpu:
                os.environ['CUDA_VISIBLE_DEVICES'] = '-1'  # force torch.cuda.is_available() = False
            elif device:
                os.environ['CUDA_VISIBLE_DEVICES'] = device
            if not cpu and torch.cuda.is_available():
                n = torch.cuda.device_count()
                arg = 'cuda:0'
            else:
                arg = 'cpu'
            return torch.device(arg)
    """
    assert changed(source) == [
        "if not cpu and torch.npu.is_available():",
        "n = torch.npu.device_count()",
        "arg = 'npu:0'",
    ]
    assert [f.where.line for f in outcome(source).findings if f.code == "JM109"] == [8, 10]


def test_a_batch_with_its_own_mover_keeps_it_while_tensors_move() -> None:
    source = """
        import torch

        class NestedTensor:
            def __init__(self, tensors, mask):
                self.tensors, self.mask = tensors, mask

            def cuda(self, *args, **kwargs):
                return NestedTensor(self.tensors.cuda(*args, **kwargs), self.mask.cuda(*args, **kwargs))

        def run(model: torch.nn.Module, samples: NestedTensor):
            samples = samples.cuda()
            return model.cuda()(samples)
    """
    assert changed(source) == [
        "return NestedTensor(self.tensors.npu(*args, **kwargs), self.mask.npu(*args, **kwargs))",
        "return model.npu()(samples)",
    ]


def test_enumerations_registries_and_flags_stay() -> None:
    source = """
        import enum
        import torch

        class Backend(enum.Enum):
            CUDA = 'cuda_kernels'

        KERNELS = {'cuda': run_cuda, 'cpu': run_cpu}

        def pick(args, kernel_type):
            if args.cuda and Backend.CUDA in enabled:
                return KERNELS['cuda']
            return KERNELS[kernel_type]
    """
    assert changed(source) == []


def test_comments_inside_calls_and_chains_survive() -> None:
    source = """
        import torch
        x = (torch
             .zeros(1)  # made on the host
             .cuda(     # then moved
                 0,     # to the first one
                 non_blocking=True,
             ))
        with torch.cuda.amp.autocast(  # mixed
                # only where asked
                args.amp,  # a flag
        ):
            pass
    """
    after = outcome(source).after.decode()
    assert after.count("#") == dedent(source).count("#") + IMPORT.count("#")
    assert "    'npu', enabled=args.amp,  # a flag" in after


def test_arguments_with_side_effects_appear_once() -> None:
    source = """
        import torch
        torch.zeros(1).cuda(next(devices))
        torch.zeros(1).to(f'cuda:{pool.pop()}')
        torch.cuda.set_device(i := next(devices))
    """
    after = outcome(source).after.decode()
    assert (after.count("next(devices)"), after.count("pool.pop()")) == (2, 1)


def test_a_library_with_optional_cuda_keeps_its_probe_of_the_toolkit() -> None:
    source = """
        import torch
        from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME

        if torch.cuda.is_available() and CUDA_HOME is not None:
            extension = CUDAExtension('ops', ['ops.cu'])
    """
    assert changed(source) == []
    assert {"JM108", "JM131"} <= {finding.code for finding in outcome(source).findings}
