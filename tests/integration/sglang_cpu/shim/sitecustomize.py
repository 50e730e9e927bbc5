"""Makes SGLang importable and usable beside a CPU build of torch, with no change to its code.

Python imports this module at its start wherever this folder is on PYTHONPATH: in the server and in the workers it
spawns. It acts only when one of the modules named in BEFORE and AFTER is imported.
"""
# mypy: disable-error-code="import-not-found,import-untyped"

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence

_kept: list[object] = []  # operator declarations live as long as their library object


def declare_torchvision_operators() -> None:
    """Declare the operators that `import torchvision` asks for.

    The wheel is a CUDA build whose binary does not load beside a CPU torch, and its import stops at "operator
    torchvision::nms does not exist". Declarations without kernels are enough for its Python code.
    """
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


def use_plain_host_memory(module: types.ModuleType) -> None:
    """Allocate the host buffer of --enable-return-routed-experts without CUDA's page locking."""
    import torch

    module.ALLOC_MEMORY_FUNCS["cpu"] = lambda dims, dtype, **_: torch.zeros(dims, dtype=dtype)


BEFORE: dict[str, Callable[[], None]] = {"torchvision": declare_torchvision_operators}
AFTER: dict[str, Callable[[types.ModuleType], None]] = {
    "sglang.srt.mem_cache.pool_host.common": use_plain_host_memory,
}


class ImportHooks(importlib.abc.MetaPathFinder):
    """Runs each hook once, when its module is imported; finds no module itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Run what is due before the import, or hand back the real spec with what is due after it attached."""
        if before := BEFORE.pop(fullname, None):
            before()
        after = AFTER.pop(fullname, None)
        if after is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_then(module: types.ModuleType) -> None:
            execute(module)
            after(module)

        spec.loader.exec_module = execute_then  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, ImportHooks())
