"""One model, one episode: what a factory returned is claimed for its episode, and refused to any other.

A model that two episodes share would mix their turns in one record, each with a reward of its own. A model whose
episode is over may serve another one after `reset()`, which gives it a new record.
"""

from __future__ import annotations

import weakref
from typing import Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.provider.model import SGLangModel

_in_use: weakref.WeakSet[SGLangModel] = weakref.WeakSet()
_record_of: weakref.WeakKeyDictionary[SGLangModel, str] = weakref.WeakKeyDictionary()

_HINT = "make a new SGLangModel for every episode; client and tokenizer are shared"


def claimed_model(agent: Any) -> SGLangModel:
    """Return the model of what a factory made, for one episode; `release` it when that is over.

    Raises:
        SGLangConfigError: If it is no agent with a `SGLangModel`, or its model is another episode's.
    """
    model = getattr(agent, "model", None)
    if not isinstance(model, SGLangModel) or not hasattr(agent, "invoke_async"):
        what = f"a {type(agent).__name__}" + (f" whose model is a {type(model).__name__}" if model is not None else "")
        raise SGLangConfigError(
            f"agent_factory must return a strands Agent with a SGLangModel, it returned {what}",
            hint="return Agent(model=SGLangModel(client=..., tokenizer=...), ...), a fresh one for every episode",
        )
    if model in _in_use:
        raise SGLangConfigError("agent_factory returned a model that another episode is using now", hint=_HINT)
    if model.trajectory.turns or _record_of.get(model) == model.trajectory.id:
        raise SGLangConfigError(
            "agent_factory returned an agent whose model holds the record of another episode", hint=_HINT
        )
    _in_use.add(model)
    _record_of[model] = model.trajectory.id
    return model


def release(model: SGLangModel) -> None:
    """Let another episode have a model, once its record is a new one."""
    _in_use.discard(model)
