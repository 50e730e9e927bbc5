"""Engines that speak SGLang's `/generate` in this process or on loopback.

`ScriptedEngine` plays given turns, for tests; `TinyEngine` runs the small chat model that this package ships, for
demonstrations and for trying things without a GPU. `EngineTransport` puts either behind a `SGLangClient` without a
socket, `serve` puts it on a port.
Importing this package loads neither NumPy nor a tokenizer; both wait for a `TinyEngine`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strands_sglang.engine.protocol import Engine, EngineRequest, EngineResponse
    from strands_sglang.engine.scripted.engine import ScriptedEngine
    from strands_sglang.engine.scripted.script import Drop, Refusal, Step, Turn, made_up_logprob
    from strands_sglang.engine.server import EngineServer, serve
    from strands_sglang.engine.tiny.engine import TinyEngine
    from strands_sglang.engine.transport import EngineTransport

TINY_MODEL = str(Path(__file__).parent / "tiny_model")
"""Folder of the shipped checkpoint: weights, tokenizer and chat template, as SGLang and transformers load them."""

__all__ = [
    "TINY_MODEL",
    "Drop",
    "Engine",
    "EngineRequest",
    "EngineResponse",
    "EngineServer",
    "EngineTransport",
    "Refusal",
    "ScriptedEngine",
    "Step",
    "TinyEngine",
    "Turn",
    "made_up_logprob",
    "serve",
]

_HOMES = {
    "Drop": "scripted.script",
    "Engine": "protocol",
    "EngineRequest": "protocol",
    "EngineResponse": "protocol",
    "EngineServer": "server",
    "EngineTransport": "transport",
    "Refusal": "scripted.script",
    "ScriptedEngine": "scripted.engine",
    "Step": "scripted.script",
    "TinyEngine": "tiny.engine",
    "Turn": "scripted.script",
    "made_up_logprob": "scripted.script",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
