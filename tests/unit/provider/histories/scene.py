"""A scripted engine behind the real provider, a recorder of what each call was given, and what must hold of both."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import AfterModelCallEvent
from strands.types.streaming import StreamEvent

from strands_sglang import SGLangClient, SGLangModel
from strands_sglang.engine import EngineTransport, ScriptedEngine, Step, Turn
from strands_sglang.trajectory import Turn as Recorded

from .oracle import END, KEEP_REASONING, Call, rendered, tokenizer

_asking: ContextVar[int] = ContextVar("asking")


class Mode(StrEnum):
    """In which way a scene is played."""

    PLAIN = "plain"
    """As it stands in the script."""
    THINKING = "thinking"
    """The prompt opens a reasoning block, history keeps reasoning, and answers are streamed."""
    FICKLE = "fickle"
    """A hook throws away a first answer to every call of an agent; none of it counts in what a scene tells."""

    @property
    def thinking(self) -> bool:
        return self is Mode.THINKING


calm = pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.THINKING])

# --- what the model writes ---------------------------------------------------------------------------------

NOT_THIS = "Not this."


def throw_away(event: AfterModelCallEvent) -> None:
    if event.stop_response is not None and NOT_THIS in str(event.stop_response.message["content"]):
        event.retry = True


def use(name: str, /, **arguments: Any) -> str:
    """A call as the template prints it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments, ensure_ascii=False)}}}\n</tool_call>'


@tool
def look_up(topic: str) -> str:
    """Look something up."""
    return f"All about {topic}."


@tool
def note(text: str = "nothing") -> str:
    """Take a note."""
    return f"Noted: {text}"


# --- what the provider is given ----------------------------------------------------------------------------


class Recorder(SGLangModel):
    """The provider, noting what it is given."""

    calls: list[Call]

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[StreamEvent]:
        specs, system = [*args, None, None][:2] if args else (kwargs.get("tool_specs"), kwargs.get("system_prompt"))
        blocks = kwargs.get("system_prompt_content")
        if blocks is not None:
            system = "\n".join(block["text"] for block in blocks if "text" in block) or None
        self._note(messages, specs, system, kwargs)
        async for event in super().stream(messages, *args, **kwargs):
            yield event

    async def structured_output(self, output_model: Any, prompt: Any, system_prompt: Any = None, **kwargs: Any) -> Any:
        self._note(prompt, None, system_prompt, kwargs)
        async for event in super().structured_output(output_model, prompt, system_prompt, **kwargs):
            yield event

    def _note(self, messages: Any, specs: Any, system: str | None, options: Mapping[str, Any]) -> None:
        plain = [{"role": message["role"], "content": copy.deepcopy(message["content"])} for message in messages]
        _asking.set(len(self.calls))
        self.calls.append(
            Call(
                messages=plain,
                system=system,
                specs=copy.deepcopy(specs or []),
                options=dict(options),
                thinking=bool(self.config.get("enable_thinking")),
            )
        )


# --- the stage ---------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Scene:
    """One scripted engine, one provider, and everything that went between them.

    Attributes:
        engine: What plays the script.
        model: The provider.
        mode: In which way it is played.
        asked: For each request, by its id: the call that made it, and the step it was answered with.
        verbatim: Renderings that differ from what was sampled, each with what was sampled: on linear history the
            sampled ids stand as they are.
        played: How many steps of the script were played.
        tempted: For each fickle agent, by its cancel signal: whether its last answer was one to be thrown away.
    """

    engine: ScriptedEngine
    model: Recorder
    mode: Mode
    asked: dict[str, tuple[int, Step]] = field(default_factory=dict)
    verbatim: dict[str, str] = field(default_factory=dict)
    played: int = 0
    tempted: dict[int, bool] = field(default_factory=dict)

    def agent(self, **options: Any) -> Agent:
        options = {"tools": [look_up, note], "callback_handler": None, "retry_strategy": None, **options}
        if self.mode is Mode.FICKLE:
            options["hooks"] = [throw_away, *options.get("hooks", [])]
        agent = Agent(model=options.pop("model", self.model), **options)
        if self.mode is Mode.FICKLE:
            self.tempted[id(agent.cancel_signal)] = False
        return agent

    def counts(self, rid: str) -> bool:
        """Whether a request is one of the script, not one whose answer a fickle scene throws away."""
        return rid not in self.asked or self.asked[rid][1] != Turn(text=NOT_THIS + END)

    def stands(self, message: Any, as_sampled: str) -> None:
        """Expect what was sampled in the place of what the template makes of the message that the host holds of it."""
        # After a question, so that nothing that depends on the place in the history differs.
        messages = [{"role": "user", "content": [{"text": "?"}]}, message]
        call = Call(messages=messages, system="S", specs=[], options={}, thinking=self.mode.thinking)
        form = rendered(call).rpartition(f"{END}\n<|im_start|>assistant\n")[0].partition("assistant\n")[2]
        self.verbatim[f"assistant\n{form}{END}"] = f"assistant\n{as_sampled}{END}"

    @property
    def turns(self) -> list[Recorded]:
        return [turn for turn in self.model.trajectory.turns if self.counts(turn.sampled.facts["rid"])]

    @property
    def prompts(self) -> list[list[int]]:
        return [list(request["input_ids"]) for request in self.engine.requests if self.counts(request["rid"])]

    def text(self, ids: Sequence[int]) -> str:
        return str(tokenizer().decode(list(ids), skip_special_tokens=False))

    def prompt(self, index: int) -> str:
        """The text of a request's prompt."""
        return self.text(self.prompts[index])

    def said(self, turn: Recorded) -> str:
        """The text of a turn, without reasoning and turn end."""
        return self._answer(turn.sampled.ids)

    @property
    def fates(self) -> str:
        """One letter a turn: k(ept), e(dited), d(iscarded)."""
        return "".join(turn.fate[0] for turn in self.turns)

    @property
    def lineages(self) -> str:
        """One letter a turn: m(ain), a(gent), s(ide call)."""
        return "".join(turn.lineage[0] for turn in self.turns)

    @property
    def parents(self) -> list[int | None]:
        """The index of each turn's parent."""
        turns = self.turns
        return [turns.index(turn.parent) if turn.parent else None for turn in turns]

    @property
    def branches(self) -> int:
        """How many branches there are."""
        return len([turn for turn in self.turns if not any(other.parent is turn for other in self.turns)])

    @property
    def shown(self) -> list[str]:
        """What `rollout` shows as sampled, segment by segment, without reasoning."""
        return [self._answer(segment.ids) for segment in self.model.rollout.segments if segment.is_sampled]

    def _answer(self, ids: Sequence[int]) -> str:
        text = self.text(ids).removesuffix(END)
        return text.partition("</think>\n\n")[2] if self.mode.thinking else text

    def check(self) -> None:
        """Hold the guarantees that every history must keep."""
        self._each_request_renders_what_was_held()
        self._each_turn_is_what_the_engine_returned()
        self._what_was_thrown_away_is_marked()
        self._columns_agree()
        self._each_token_is_trained_once()

    def _each_request_renders_what_was_held(self) -> None:
        """G3."""
        for request in self.engine.requests:
            call = self.model.calls[self.asked[request["rid"]][0]]
            sent, held = self.text(request["input_ids"]), rendered(call)
            for form, sampled in self.verbatim.items():
                held = held.replace(form, sampled)
            assert sent == held

    def _each_turn_is_what_the_engine_returned(self) -> None:
        """G1, G2 and G8: one turn for each request that was answered, as it was answered, after what was sent."""
        of_request = {request["rid"]: request for request in self.engine.requests}
        for position, turn in enumerate(self.model.trajectory.turns):
            assert turn.index == position
            rid = turn.sampled.facts["rid"]
            path = turn.rollout()
            assert path.token_ids[: len(path) - len(turn.sampled)] == of_request.pop(rid)["input_ids"]
            step = self.asked[rid][1]
            assert isinstance(step, Turn)
            assert list(turn.sampled.ids) == self.engine.ids_of(step)

    def _what_was_thrown_away_is_marked(self) -> None:
        for position, turn in enumerate(turns := self.model.trajectory.turns):
            if not self.counts(turn.sampled.facts["rid"]):
                later = any(other.conversation == turn.conversation for other in turns[position + 1 :])
                assert turn.fate == ("discarded" if later else "kept")
                assert not any(other.parent is turn for other in turns)

    def _columns_agree(self) -> None:
        """G4 and G5."""
        for branch in [self.model.rollout, *self.model.trajectory.branches]:
            assert len(branch.token_ids) == len(branch.loss_mask) == len(branch.logprobs) == len(branch)
            pairs = zip(branch.logprobs, branch.loss_mask, strict=True)
            assert all((value is None) == (not mask) for value, mask in pairs)

    def _each_token_is_trained_once(self) -> None:
        """G10, with and without the answers that were thrown away."""
        for discarded in (True, False):
            chosen = [turn for turn in self.model.trajectory.turns if discarded or turn.fate != "discarded"]
            trained: Counter[int] = Counter()
            for sample in self.model.trajectory.samples(include_side_calls=True, include_discarded=discarded):
                pairs = zip(sample.rollout.token_ids, sample.loss_mask, strict=True)
                trained.update(token for token, mask in pairs if mask)
            assert trained == Counter(token for turn in chosen for token in turn.sampled.ids)


def build(*steps: Step | str, mode: Mode = Mode.PLAIN, **config: Any) -> Scene:
    """Set a scene.

    Args:
        *steps: What the engine answers, in order of arrival: steps, or what the model says. In a thinking scene it
            thinks before it says it.
        mode: In which way it is played.
        **config: Options of the provider.
    """
    script = [
        Turn(text=sampled(step, index, mode)) if isinstance(step, str) else step for index, step in enumerate(steps)
    ]
    return direct(lambda _, count: script[count], mode=mode, **config)


def sampled(text: str, index: int, mode: Mode) -> str:
    """What the model samples to say something."""
    return (f"Thought {index}.\n</think>\n\n" if mode.thinking else "") + text + END


def direct(choose: Any, *, mode: Mode = Mode.PLAIN, **config: Any) -> Scene:
    """Set a scene in which `choose(prompt, number)` gives the step for each request."""
    if mode.thinking:
        config = {"enable_thinking": True, "chat_template_kwargs": KEEP_REASONING, "stream": True, **config}

    def play(body: dict[str, Any]) -> Step:
        call = _asking.get()
        agent = id(scene.model.calls[call].options.get("cancel_signal"))
        step: Step = Turn(text=NOT_THIS + END)
        if agent in scene.tempted:
            scene.tempted[agent] = not scene.tempted[agent]
        if not scene.tempted.get(agent, False):
            step = choose(scene.text(body["input_ids"]), scene.played)
            scene.played += 1
        scene.asked[body["rid"]] = (call, step)
        return step

    engine = ScriptedEngine(play, tokenizer=tokenizer())
    client = SGLangClient("http://engine", transport=EngineTransport(engine), max_retries=0)
    model = Recorder(client=client, tokenizer=tokenizer(), **config)
    model.calls = []
    scene = Scene(engine=engine, model=model, mode=mode)
    return scene
