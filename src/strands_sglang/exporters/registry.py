"""Names to exporters.

Owns the table of trainers (name to "module:Class", loaded on first use), the other spellings of their names, and
`register_exporter` for exporters written elsewhere. Never imports an exporter that was not asked for, nor a trainer.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from strands_sglang.errors import SGLangConfigError, UnknownNameError, nearest

if TYPE_CHECKING:
    from .base import Exporter

T = TypeVar("T")

TRAINERS: dict[str, str] = {
    "agent_lightning": "agent_lightning:AgentLightningExporter",
    "areal": "areal:ARealExporter",
    "art": "art:ARTExporter",
    "atropos": "atropos:AtroposExporter",
    "jsonl": "generic:JSONLExporter",
    "miles": "slime:MilesExporter",
    "nemo_rl": "nemo_rl:NeMoRLExporter",
    "parquet": "generic:ParquetExporter",
    "prime_rl": "prime_rl:PrimeRLExporter",
    "rllm": "rllm:RLLMExporter",
    "skyrl": "skyrl:SkyRLExporter",
    "slime": "slime:SlimeExporter",
    "tinker": "tinker:TinkerExporter",
    "trl": "trl:TRLExporter",
    "trl_async": "trl:TRLAsyncExporter",
    "verifiers": "verifiers:VerifiersExporter",
    "verl": "verl:VerlExporter",
}
"""Our exporters: name to module and class below this package."""

_registered: dict[str, type[Any]] = {}


class _Registry(Mapping[str, "type[Exporter]"]):
    """The exporters by name as one mapping; reading an entry loads its module."""

    def __getitem__(self, name: str) -> type[Exporter]:
        plain = _plain(name)
        if plain in _registered:
            return _registered[plain]
        module, _, cls = TRAINERS[plain].partition(":")
        found: type[Exporter] = getattr(importlib.import_module(f"{__package__}.{module}"), cls)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({**TRAINERS, **_registered}))

    def __len__(self) -> int:
        return len({**TRAINERS, **_registered})

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (_plain(name) in _registered or _plain(name) in TRAINERS)


EXPORTERS = _Registry()
"""Every exporter by name."""


def register_exporter(name: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that makes an exporter available as `get_exporter(name)`."""

    def register(cls: type[T]) -> type[T]:
        _registered[_plain(name)] = cls
        return cls

    return register


def get_exporter(name: str, **options: Any) -> Exporter:
    """Create an exporter by name.

    Args:
        name: A trainer, as in `EXPORTERS`; case, hyphens and underscores make no difference.
        **options: The exporter's options; see its class.

    Returns:
        A new exporter.

    Raises:
        UnknownNameError: If there is none of that name; the message lists the names and the nearest one.
        SGLangConfigError: If there is no such option, or a value cannot be meant.
    """
    if name not in EXPORTERS:
        raise UnknownNameError("exporter", name, EXPORTERS)
    cls = EXPORTERS[name]
    known = list(inspect.signature(cls).parameters)
    for option in options:
        if option not in known:
            raise SGLangConfigError(
                f"the exporter {name!r} has no option {option!r}{nearest(option, known)}; it has {', '.join(known)}"
            )
    return cls(**options)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
