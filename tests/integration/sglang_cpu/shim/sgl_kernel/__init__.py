"""Stand-in for the compiled package of this name, which has no CPU build among the wheels.

On a CPU, SGLang imports names from it, and takes its plain torch code path where the operator
`torch.ops.sgl_kernel.convert_weight_packed` does not exist. So a dense or MoE model needs no kernel from here:
every name resolves, and every call refuses.
"""

from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., None]:
    if name.startswith("__"):
        raise AttributeError(name)

    def operator(*args: object, **kwargs: object) -> None:
        raise RuntimeError(f"sgl_kernel.{name}: this CPU-only installation has no compiled kernels")

    operator.__name__ = operator.__qualname__ = name
    return operator
