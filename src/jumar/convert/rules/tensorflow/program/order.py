"""Which rules run over a source of TensorFlow, in which order: `ORDER`. The first rule that claims a place wins."""

from __future__ import annotations

from jumar.convert.model.step import Step

_FRAMEWORK = (b"tensorflow", b"keras", b"horovod", b"tf_keras")

ORDER: tuple[Step, ...] = (
    Step("JM641", "tensorflow.session_without_npu", _FRAMEWORK),
    Step("JM642", "tensorflow.session_config_elsewhere", _FRAMEWORK),
    Step("JM643", "tensorflow.gpu_option", (b"gpu_options", b"gpuoptions")),
    Step("JM655", "tensorflow.gpu_query", (b"gpu", b"cuda", b"set_memory_growth", b"device_lib")),
    Step("JM653", "tensorflow.device_scope", (b"device(",)),
    Step("JM646", "tensorflow.tpu_estimator", (b"tpu",)),
    Step("JM644", "tensorflow.estimator", (b"estimator",)),
    Step("JM645", "tensorflow.distribution_strategy", (b"distribute", b"strategy", b"optimizer")),
    Step("JM650", "tensorflow.horovod_broadcast", (b"horovod",)),
    Step("JM649", "tensorflow.horovod_call", (b"horovod",)),
    Step("JM647", "tensorflow.keras_session", (b"keras",)),
    Step("JM648", "tensorflow.npu_device_unopened", _FRAMEWORK),
    Step("JM651", "tensorflow.dropout", (b"dropout",)),
    Step("JM652", "tensorflow.gelu", (b"gelu",)),
    Step("JM654", "tensorflow.visible_devices", (b"cuda_visible_devices", b"tf_", b"nccl_")),
    Step("JM656", "tensorflow.mixed_precision_rewrite", (b"mixed_precision", b"lossscale")),
    Step("JM657", "tensorflow.keras_mixed_precision", (b"mixed_precision", b"mixed_float16")),
    Step(
        "JM658",
        "tensorflow.xla",
        (
            b"xla",
            b"jit",
        ),
    ),
    Step("JM659", "tensorflow.contrib", (b"contrib",)),
    Step("JM665", "tensorflow.queue_input", (b"queue", b"train.", b"reader")),
    Step("JM660", "tensorflow.host_operator", _FRAMEWORK),
    Step("JM661", "tensorflow.batch_of_changing_size", (b"batch",)),
    Step("JM662", "tensorflow.loop_per_run", (b"run", b"estimator")),
    Step("JM663", "tensorflow.dynamic_shape", _FRAMEWORK),
    Step("JM666", "tensorflow.unsupported_dtype", (b"float64", b"complex", b"double")),
    Step("JM668", "tensorflow.native_keras", (b"keras",)),
    Step("JM669", "tensorflow.rewrite_option", (b"rewrite_options", b"rewriterconfig")),
    Step("JM664", "tensorflow.unresolved_name", _FRAMEWORK),
    Step("JM667", "tensorflow.gpu_left_over", (b"gpu", b"cuda")),
    Step("JM640", "tensorflow.npu_import", _FRAMEWORK),
)
"""The rules for TensorFlow, one a file. The last two look at what the others proposed."""
