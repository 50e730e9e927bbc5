"""A saved episode runs again offline: equal where the code is, and a named difference where it is not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent, tool
from strands.types.exceptions import EventLoopException, MaxTokensReachedException

from strands_sglang import SGLangClient, SGLangModel, Trajectory, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, ScriptedEngine, Turn
from strands_sglang.errors import RecordError, ReplayMismatchError
from strands_sglang.replay import Replay, replay_engine
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.trajectory import Lineage
from strands_sglang.trajectory import Turn as RecordedTurn
from strands_sglang.wire import GenerateRequest

END = "<|im_end|>"
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "25 * 17"}}\n</tool_call>'
TOKENIZER = get_tokenizer(TINY_MODEL)

Tool = Callable[[str], str]


def scripted(*steps: Turn | str) -> SGLangClient:
    """A client of an engine that plays these turns."""
    script = [Turn(text=step) if isinstance(step, str) else step for step in steps]
    return SGLangClient("http://engine", transport=EngineTransport(ScriptedEngine(script, tokenizer=TOKENIZER)))


def model_of(client: SGLangClient, **config: Any) -> SGLangModel:
    return SGLangModel(client=client, tokenizer=TOKENIZER, **config)


async def episode(model: SGLangModel, answer: str = "425") -> None:
    """Two questions with a tool, a truncated answer, a side call, and a question that is asked again."""

    @tool
    def calculator(expression: str) -> str:
        """Evaluate an arithmetic expression."""
        return answer

    agent = Agent(model=model, tools=[calculator], callback_handler=None)
    await agent.invoke_async("What is 25 * 17?")
    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("At length?")
    async for _ in model.stream([{"role": "user", "content": [{"text": "Summarise."}]}]):
        pass
    await agent.invoke_async("Again?")
    agent.messages.pop()
    await agent.invoke_async()


ANSWERS = (
    Turn(text="I compute.\n" + CALL + END, weight_versions=[{"version": "v1", "start": 0, "end": 99}]),
    "25 * 17 = 425." + END,
    Turn(text="Well, it", finish="length", meta={"cached_tokens": 7}),
    "A summary." + END,
    "First." + END,
    "Second." + END,
)


@pytest.fixture(scope="module")
def recorded() -> Trajectory:
    """The episode as it is saved and loaded."""
    first = ANSWERS[0]
    assert isinstance(first, Turn)
    count = len(TOKENIZER.encode(first.text or "", add_special_tokens=False))
    spans = [{"version": "v1", "start": 0, "end": 3}, {"version": "v2", "start": 3, "end": count}]
    model = model_of(scripted(Turn(text=first.text, weight_versions=spans), *ANSWERS[1:]))
    asyncio.run(episode(model))
    return Trajectory.from_json(model.trajectory.to_json())


def described(trajectory: Trajectory) -> list[dict[str, Any]]:
    """All that is to be equal after a replay; not the time it took, nor the ids of its requests."""
    return [
        {
            "parent": turn.parent.index if turn.parent else None,
            "prompt": turn.prompt.ids.tolist(),
            "prompt_logprobs": turn.prompt.logprob_list(),
            "sampled": turn.sampled.ids.tolist(),
            "logprobs": turn.sampled.logprob_list(),
            "weight_spans": turn.sampled.weight_spans,
            "message_index": turn.sampled.message_index,
            "conversation": turn.conversation,
            "lineage": turn.lineage,
            "fate": turn.fate,
            "facts": {
                name: value
                for name, value in turn.sampled.facts.items()
                if name in ("finish_reason", "matched", "cached_tokens", "prompt_tokens", "sampling_params")
            },
        }
        for turn in trajectory.turns
    ]


async def test_the_same_code_leaves_an_equal_record(recorded: Trajectory) -> None:
    replay = Replay(recorded)
    model = model_of(replay.client())

    await episode(model)

    assert described(model.trajectory) == described(recorded)
    assert replay.unplayed == []
    assert replay.mismatches == []
    # The episode is worth the test: a tool, a cut answer, a side call, and a fork with a discarded answer.
    turns = recorded.turns
    assert [turn.sampled.facts["finish_reason"] for turn in turns].count("length") == 1
    assert Lineage.SIDE_CALL in [turn.lineage for turn in turns]
    assert len({turn.fate for turn in turns}) == 2
    assert turns[0].sampled.weight_spans[1][0] == "v2"


async def test_a_record_is_replayed_in_the_streaming_mode_too(recorded: Trajectory) -> None:
    model = model_of(Replay(recorded).client(), stream=True)

    await episode(model)

    assert described(model.trajectory) == described(recorded)


async def test_a_replay_can_be_replayed(recorded: Trajectory) -> None:
    model = model_of(Replay(recorded).client())
    await episode(model)

    again = model_of(Replay(model.trajectory).client())
    await episode(again)

    assert described(again.trajectory) == described(recorded)


async def test_another_tool_result_is_reported_at_its_first_token(recorded: Trajectory) -> None:
    replay = Replay(recorded, tokenizer=TOKENIZER)

    with pytest.raises(EventLoopException) as caught:
        await episode(model_of(replay.client()), answer="427")

    error = caught.value.__cause__
    assert isinstance(error, ReplayMismatchError)
    asked, kept = replay.engine.prompts[-1], prompt_of(recorded.turns[1])
    assert error.turn == 1
    assert error.position == next(at for at, pair in enumerate(zip(asked, kept, strict=False)) if pair[0] != pair[1])
    assert str(TOKENIZER.decode(asked[: error.position])).endswith("<tool_response>\n42")
    both, recorded_line, asked_line = str(error).splitlines()[1:4]
    assert "<tool_response>\\n42" in both
    assert "'5\\n</tool_response>" in recorded_line
    assert "'7\\n</tool_response>" in asked_line
    assert replay.mismatches == [error]
    assert [turn.index for turn in replay.unplayed] == [1, 2, 3, 4, 5]


def prompt_of(turn: RecordedTurn) -> list[int]:
    ids = turn.rollout().token_ids
    return ids[: -len(turn.sampled)]


async def test_without_a_tokenizer_ids_are_shown(recorded: Trajectory) -> None:
    client = Replay(recorded).client()
    asked = [*prompt_of(recorded.turns[0])[:5], 7]

    with pytest.raises(ReplayMismatchError, match=r"differ at token 5, .*\n.*\n.*\n  asked: +\[7\]"):
        await client.generate(asked)


async def test_a_request_that_ends_early_or_goes_on_is_told_from_the_recorded_one(recorded: Trajectory) -> None:
    prompt = prompt_of(recorded.turns[0])

    for asked, side in ((prompt[:-2], "asked: "), ([*prompt, 5], "recorded:")):
        with pytest.raises(ReplayMismatchError, match=side + r" +\(ends here\)"):
            await Replay(recorded).client().generate(asked)


async def test_a_turn_is_played_once(recorded: Trajectory) -> None:
    replay = Replay(recorded)
    client = replay.client()
    await client.generate(prompt_of(recorded.turns[0]))

    with pytest.raises(ReplayMismatchError, match="turn 0 is asked for once more than it was recorded"):
        await client.generate(prompt_of(recorded.turns[0]))


async def test_after_the_last_turn_nothing_is_made_up(recorded: Trajectory) -> None:
    replay = Replay(recorded)
    await episode(model_of(replay.client()))

    with pytest.raises(ReplayMismatchError, match="all 6 recorded turns were played"):
        await replay.client().generate([1, 2, 3])


async def test_an_agent_that_asks_something_else_gets_the_error_itself(recorded: Trajectory) -> None:
    agent = Agent(model=model_of(Replay(recorded).client()), callback_handler=None)

    with pytest.raises(ReplayMismatchError):
        await agent.invoke_async("Something else?")


async def test_conversations_at_once_each_get_their_own_answers() -> None:
    async def ask(model: SGLangModel, question: str) -> str:
        return str(await Agent(model=model, callback_handler=None).invoke_async(question)).strip()

    questions = [f"What is {number}?" for number in range(6)]
    model = model_of(scripted(*(f"It is {number}.{END}" for number in range(6))))
    for question in questions:
        await ask(model, question)

    again = model_of(Replay(model.trajectory).client())
    answers = await asyncio.gather(*(ask(again, question) for question in reversed(questions)))

    assert list(reversed(answers)) == [f"It is {number}." for number in range(6)]


async def test_what_was_not_recorded_is_null_and_not_made_up() -> None:
    model = model_of(scripted("Hello." + END), return_logprob=False)
    agent = Agent(model=model, callback_handler=None)
    await agent.invoke_async("Hello?")
    bare = Trajectory.from_json(model.trajectory.to_json())

    again = model_of(Replay(bare).client(), return_prompt_logprob=True)
    await Agent(model=again, callback_handler=None).invoke_async("Hello?")

    assert set(again.trajectory.turns[0].rollout().logprobs) == {None}


async def test_prompt_logprobs_are_those_recorded() -> None:
    async def ask_twice(model: SGLangModel) -> None:
        agent = Agent(model=model, callback_handler=None)
        await agent.invoke_async("First?")
        await agent.invoke_async("Second?")

    model = model_of(scripted("One." + END, "Two." + END), return_prompt_logprob=True)
    await ask_twice(model)

    again = model_of(Replay(model.trajectory).client(), return_prompt_logprob=True)
    await ask_twice(again)

    assert described(again.trajectory) == described(model.trajectory)
    assert any(value is not None for value in again.trajectory.turns[1].prompt.logprob_list())


def with_rows(start: int) -> Trajectory:
    """One turn of 2 prompt and 1 sampled tokens, with routing rows."""
    trajectory = Trajectory()
    rows = base64.b64encode(bytes(4 * (2 - start))).decode()
    facts = {"finish_reason": "length", "routed_experts": rows, "routed_experts_start_len": start}
    trajectory.add(
        RecordedTurn(
            index=0,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [1, 2]),
            sampled=Segment.of(SegmentKind.SAMPLED, [3], [-1.0], facts=facts),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )
    return trajectory


async def test_routing_rows_are_played_where_they_are_asked_for_as_they_were(recorded: Trajectory) -> None:
    request = GenerateRequest(input_ids=[1, 2], return_routed_experts=True, routed_experts_start_len=1)

    client = Replay(with_rows(1)).client()
    assert (await client.send(request)).routed_experts == base64.b64encode(bytes(4)).decode()
    with pytest.raises(ReplayMismatchError, match="from position 1 on, but those recorded begin at 0"):
        await Replay(with_rows(0)).client().send(request)
    with pytest.raises(ReplayMismatchError, match="none are recorded"):
        await Replay(recorded).client().generate(prompt_of(recorded.turns[0]), return_routed_experts=True)


async def test_rows_of_an_indexer_are_asked_for_recorded_and_played() -> None:
    async def play(client: SGLangClient) -> Trajectory:
        model = model_of(client, return_indexer_topk=True)
        await Agent(model=model, callback_handler=None).invoke_async("Hello?")
        return model.trajectory

    prompt = len(prompt_of((await play_once()).turns[0]))
    rows = base64.b64encode(bytes(4 * (prompt + 1 - 1))).decode()
    recorded = await play(scripted(Turn(text=END, meta={"indexer_topk": rows})))

    assert recorded.turns[0].sampled.facts["indexer_topk"] == rows
    again = await play(Replay(recorded).client())
    assert again.turns[0].sampled.facts["indexer_topk"] == rows


async def play_once() -> Trajectory:
    """An episode of one empty answer."""
    model = model_of(scripted(END))
    await Agent(model=model, callback_handler=None).invoke_async("Hello?")
    return model.trajectory


async def test_a_server_that_named_no_weights_names_none() -> None:
    reply = await Replay(with_rows(0)).client().send(GenerateRequest(input_ids=[1, 2]))

    assert reply.weight_versions == ()
    assert reply.output_logprobs == [-1.0]


async def test_one_version_for_a_whole_answer_stays_that() -> None:
    turn = Turn(text="Hello." + END, weight_version="v7", without=["weight_versions"])
    model = model_of(scripted(turn))
    await Agent(model=model, callback_handler=None).invoke_async("Hello?")

    again = model_of(Replay(model.trajectory).client())
    await Agent(model=again, callback_handler=None).invoke_async("Hello?")

    (one,), (other,) = model.trajectory.turns, again.trajectory.turns
    assert one.sampled.weight_spans == other.sampled.weight_spans == (("v7", 0, len(one.sampled)),)
    assert one.sampled.facts["weights_widened"] == other.sampled.facts["weights_widened"]


async def test_what_truncation_left_to_choose_from_is_played_too() -> None:
    ids = [40, 41, 1017]
    mask = {
        "output_token_sampling_mask": [[40, 3], [41], [1017, 9]],
        "output_token_sampling_logprobs": [-0.5, 0.0, None],
    }
    model = model_of(scripted(Turn(ids=ids, meta=mask)), return_sampling_mask=True)
    await Agent(model=model, callback_handler=None).invoke_async("Hello?")

    again = model_of(Replay(model.trajectory).client(), return_sampling_mask=True)
    await Agent(model=again, callback_handler=None).invoke_async("Hello?")

    support = again.trajectory.turns[0].sampled.support
    assert support is not None
    assert list(support) == mask["output_token_sampling_mask"]
    assert support.logprob_list() == mask["output_token_sampling_logprobs"]


async def test_a_turn_that_was_put_back_into_the_queue_stays_one() -> None:
    model = model_of(scripted(Turn(text="Hello." + END, meta={"num_retractions": 2})))
    await Agent(model=model, callback_handler=None).invoke_async("Hello?")

    again = model_of(Replay(model.trajectory).client())
    await Agent(model=again, callback_handler=None).invoke_async("Hello?")

    assert again.trajectory.turns[0].sampled.facts["retractions"] == 2


async def test_images_are_taken_where_the_recorded_model_took_them() -> None:
    trajectory = with_rows(0)
    assert await Replay(trajectory).client().is_multimodal() is False

    trajectory.turns[0].images = ("data:image/png;base64,AA==",)
    assert await Replay(trajectory).client().is_multimodal() is True


async def test_the_engine_alone_serves_a_client_of_ones_own(recorded: Trajectory) -> None:
    client = SGLangClient("http://replay", transport=EngineTransport(replay_engine(recorded)))

    reply = await client.generate(prompt_of(recorded.turns[0]))

    assert reply["output_ids"] == recorded.turns[0].sampled.ids.tolist()


@pytest.mark.parametrize("fact", ["matched", "prompt_tokens", "cached_tokens", "indexer_topk"])
@pytest.mark.parametrize(
    "odd", [10**400, [10**400], {"a": 1}, "\ud800", 0.5], ids=["huge", "list", "object", "half", "real"]
)
async def test_a_fact_of_another_kind_is_never_played(fact: str, odd: Any) -> None:
    trajectory = Trajectory(id="e1")
    trajectory.add(
        RecordedTurn(
            index=0,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [5, 6]),
            sampled=Segment.of(SegmentKind.SAMPLED, [3, 4], [-0.5, -0.5], facts={fact: odd}),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )

    with pytest.raises(RecordError, match=rf"turns\[0\].sampled.facts.{fact} is "):
        await Replay(trajectory).client().send(GenerateRequest(input_ids=[5, 6], sampling_params={}))
