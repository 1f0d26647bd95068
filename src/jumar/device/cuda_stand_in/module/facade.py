"""A class under another name that takes CUDA devices."""

from __future__ import annotations

from typing import Any

from jumar.device.cuda_stand_in.names import redirect


def facade(name: str, real: Any, instances: type | None = None) -> type:
    """Return a class that builds `real` from CUDA devices. Instances of `instances` (default: `real`) are its own."""
    wanted = real if instances is None else instances

    class Meta(type(real)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if cls is not made:
                return super().__call__(*args, **kwargs)
            args, kwargs = redirect(args, kwargs)
            return real(*args, **kwargs)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, wanted) if cls is made else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, wanted) if cls is made else super().__subclasscheck__(subclass)

    made: type = Meta(name, (real,), {"__module__": "torch.cuda", "__doc__": real.__doc__})
    return made
