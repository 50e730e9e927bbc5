"""The episodes of a run, one after another: every prompt, and its group.

Prompts are read only as far as they are asked for, from any iterable or asynchronous iterable. What is given is not
closed: the next run may go on with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from strands_sglang.errors import SGLangConfigError

from .episode import EpisodeContext
from .prompts import Prompt, Repeats


def check_prompts(prompts: Any) -> None:
    """Refuse what is one prompt, or none, where an iterable of prompts is meant."""
    one = isinstance(prompts, str | bytes | bytearray | Mapping | Prompt)
    if one or not (hasattr(prompts, "__aiter__") or hasattr(prompts, "__iter__") or hasattr(prompts, "__getitem__")):
        raise SGLangConfigError(
            f"prompts must be an iterable of prompts, got a {type(prompts).__name__}",
            hint="put a single prompt into a list" if one else "such as a list of texts or rows",
        )


def keys_of(prompts: Iterable[Any]) -> Iterator[str]:
    """Yield the keys that a run over prompts gives them."""
    repeats = Repeats()
    return (repeats.key_of(Prompt.of(item)) for item in prompts)


class Source:
    """Gives out what is to be played, the episodes of a prompt one after another.

    Attributes:
        may_wait: Whether asking for the next prompt may wait: where they come asynchronously.
    """

    def __init__(self, prompts: Any, *, group_size: int) -> None:
        """Take the prompts.

        Args:
            prompts: Any iterable or asynchronous iterable.
            group_size: Episodes of each.
        """
        self.may_wait = hasattr(prompts, "__aiter__")
        self._prompts: Any = aiter(prompts) if self.may_wait else iter(prompts)
        self._group_size = group_size
        self._repeats = Repeats()
        self._ready: deque[EpisodeContext] = deque()

    def at_once(self) -> EpisodeContext | None:
        """Return what is left of the last prompt's group, or None."""
        return self._ready.popleft() if self._ready else None

    async def next(self) -> EpisodeContext | None:
        """Return the first episode of the next prompt; None after the last."""
        item: Any
        if self.may_wait:
            prompts: AsyncIterator[Any] = self._prompts
            item = await anext(prompts, _END)
        else:
            plain: Iterator[Any] = self._prompts
            item = next(plain, _END)
        if item is _END:
            return None
        prompt = Prompt.of(item)
        key = self._repeats.key_of(prompt)
        contexts = (EpisodeContext(prompt=prompt, key=key, group_index=index) for index in range(self._group_size))
        self._ready.extend(contexts)
        return self._ready.popleft()


_END = object()
