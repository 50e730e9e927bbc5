"""An agent factory named by a string: `module:attribute`, loaded in whatever process it is to run in.

It gives the factory, through its context, a model over one server: client, tokenizer and parser are made once in each
process and shared by all episodes there. It can be pickled, since it holds names only.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strands_sglang.client import SGLangClient
from strands_sglang.errors import SGLangConfigError, nearest
from strands_sglang.provider.model import SGLangModel

from .calling import takes_positional
from .episode import EpisodeContext


@dataclass(slots=True, kw_only=True, eq=False)
class AgentTarget:
    """Calls a factory that is named by a string.

    Attributes:
        name: `module:attribute`.
        base_url: The server of `EpisodeContext.model`; None: the factory makes its models itself.
        tokenizer: Its tokenizer; None: the one that the server names.
        tool_parser: Name of the tool parser; None: told from the tokenizer's chat template.
        config: Options of the models, such as `sampling_params`; the factory may add to them.
        client_options: Further arguments of the client.
    """

    name: str
    base_url: str | None = None
    tokenizer: str | None = None
    tool_parser: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold a key
    _parts: dict[str, Any] | None = None
    _lock: asyncio.Lock | None = None

    async def __call__(self, context: EpisodeContext) -> Any:
        """Make an agent."""
        factory = load(self.name)
        if self.base_url is not None:
            context = replace(context, model=await self._model_maker())
        made = factory(context) if takes_positional(factory) else factory()
        return await made if inspect.isawaitable(made) else made

    async def prepare(self) -> None:
        """Make client, tokenizer and parser now, so that a server that is not there is told before the first episode.

        Raises:
            SGLangError: If the server does not answer, or its tokenizer cannot be loaded.
        """
        if self.base_url is not None:
            await self._model_maker()

    async def aclose(self) -> None:
        """Close the client, where one was made."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts["client"].close()

    def __getstate__(self) -> tuple[Any, ...]:
        """Leave out what belongs to this process."""
        return (self.name, self.base_url, self.tokenizer, self.tool_parser, self.config, self.client_options)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.name, self.base_url, self.tokenizer, self.tool_parser, self.config, self.client_options = state
        self._parts = self._lock = None

    async def _model_maker(self) -> Callable[..., SGLangModel]:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            parts = self._parts = self._parts or await self._made()

        def model(**config: Any) -> SGLangModel:
            return SGLangModel(**{**parts, **self.config, **config})

        return model

    async def _made(self) -> dict[str, Any]:
        from strands_sglang.tokenization.pretrained import get_tokenizer
        from strands_sglang.tool_parsers import get_tool_parser

        assert self.base_url is not None
        client = SGLangClient(self.base_url, **self.client_options)
        tokenizer = get_tokenizer(self.tokenizer or _tokenizer_of(await client.model_info(), self.base_url))
        if self.tool_parser is not None:
            parser = get_tool_parser(self.tool_parser)
        else:
            parser = get_tool_parser("auto", tokenizer=tokenizer)
        return {"client": client, "tokenizer": tokenizer, "tool_parser": parser}


def _tokenizer_of(model_info: Mapping[str, Any], base_url: str) -> str:
    """Return the tokenizer that a server names."""
    name = model_info.get("tokenizer_path")
    if not (isinstance(name, str) and name):
        raise SGLangConfigError(
            f"the server {base_url} names no tokenizer: its model_info has no tokenizer_path",
            hint="name the tokenizer (--tokenizer)",
        )
    return name


def load(name: str) -> Any:
    """Return what `module:attribute` names; modules of the current folder are found, too.

    Raises:
        SGLangConfigError: If it has another form, or the module or the attribute is not there, or cannot be loaded.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise SGLangConfigError(f"{name!r} is not of the form module:attribute", hint='such as "my_agents:make_agent"')
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise SGLangConfigError(
                f"there is no module {error.name!r}", hint="it must be installed, or lie in the current folder"
            ) from error
        raise SGLangConfigError(f"the module {module_name!r} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise SGLangConfigError(
            f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise SGLangConfigError(f"the module {module_name!r} has no {attribute!r}{nearest(attribute, dir(found))}")
        found = getattr(found, attribute)
    if not callable(found):
        raise SGLangConfigError(f"{name} is a {type(found).__name__}, which cannot be called")
    return found
