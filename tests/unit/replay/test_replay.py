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


PICTURE, OTHER = "data:image/png;base64,AAAA", "data:image/png;base64,BBBB"


def with_images(*images: tuple[str, ...]) -> Trajectory:
    """Turns of one prompt, each after its own images."""
    trajectory = Trajectory()
    for index, shown in enumerate(images):
        trajectory.add(
            RecordedTurn(
                index=index,
                parent=None,
                prompt=Segment.of(SegmentKind.PROMPT, [1, 2]),
                sampled=Segment.of(SegmentKind.SAMPLED, [3 + index], [-1.0], facts={"finish_reason": "length"}),
                conversation=0,
                lineage=Lineage.MAIN,
                images=shown,
            )
        )
    return trajectory


@pytest.mark.parametrize(
    ("recorded", "asked", "words"),
    [
        ((PICTURE,), (OTHER,), "image 0 is another one: 1 recorded and 1 asked"),
        ((PICTURE, PICTURE), (PICTURE, OTHER), "image 1 is another one: 2 recorded and 2 asked"),
        ((PICTURE,), (), "not as many images: 1 recorded and 0 asked"),
        ((), (PICTURE,), "not as many images: 0 recorded and 1 asked"),
        ((PICTURE,), (PICTURE, PICTURE), "not as many images: 1 recorded and 2 asked"),
    ],
)
async def test_other_images_are_another_request(recorded: tuple[str, ...], asked: tuple[str, ...], words: str) -> None:
    replay = Replay(with_images(recorded))
    with pytest.raises(ReplayMismatchError, match="turn 0 .* same tokens, but " + words) as caught:
        await replay.client().send(GenerateRequest(input_ids=[1, 2], image_data=asked))
    assert replay.mismatches == [caught.value]
    assert replay.unplayed

    reply = await replay.client().send(GenerateRequest(input_ids=[1, 2], image_data=recorded))
    assert reply.output_ids == [3]
    with pytest.raises(ReplayMismatchError, match="asked for once more"):
        await replay.client().send(GenerateRequest(input_ids=[1, 2], image_data=recorded))


async def test_turns_of_the_same_tokens_are_told_apart_by_their_images() -> None:
    replay = Replay(with_images((PICTURE,), (OTHER,), ()))
    client = replay.client()

    for asked, answer in (((), 5), ((OTHER,), 4), ((PICTURE,), 3)):
        assert (await client.send(GenerateRequest(input_ids=[1, 2], image_data=asked))).output_ids == [answer]
    assert replay.unplayed == []


async def test_images_of_earlier_turns_count_too() -> None:
    trajectory = with_images((PICTURE,))
    (first,) = trajectory.turns
    trajectory.add(
        RecordedTurn(
            index=1,
            parent=first,
            prompt=Segment.of(SegmentKind.PROMPT, [8]),
            sampled=Segment.of(SegmentKind.SAMPLED, [9], [-1.0]),
            conversation=0,
            lineage=Lineage.MAIN,
            images=(OTHER,),
        )
    )
    client = Replay(trajectory).client()

    with pytest.raises(ReplayMismatchError, match=r"turn 1 .*image 0 is another one: 2 recorded and 1 asked"):
        await client.send(GenerateRequest(input_ids=[1, 2, 3, 8], image_data=[OTHER]))
    reply = await client.send(GenerateRequest(input_ids=[1, 2, 3, 8], image_data=[PICTURE, OTHER]))
    assert reply.output_ids == [9]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_was_carried_on_tells_of_its_weights_what_was_told(stream: bool) -> None:
    """The first part names no weights, the second one version, the third each."""

    def part(*ids: int, finish: Any = "abort", **told: Any) -> Turn:
        return Turn(ids=ids, logprobs=[-id / 100 for id in ids], finish=finish, **told)

    parts = [
        part(40, 41, without=["weight_version", "weight_versions"]),
        part(42, weight_version="v1", without=["weight_versions"]),
        part(43, 44, 1017, finish="stop", weight_versions=versions(("v1", 0, 1), ("v2", 1, 3))),
    ]
    model = model_of(scripted(*parts), stream=stream)
    await Agent(model=model, callback_handler=None).invoke_async("Hello?")

    replay = Replay(model.trajectory)
    again = model_of(replay.client(), stream=stream)
    await Agent(model=again, callback_handler=None).invoke_async("Hello?")

    (one,), (other,) = model.trajectory.turns, again.trajectory.turns
    assert one.sampled.weight_spans == (("v1", 2, 3), ("v1", 3, 4), ("v2", 4, 6))
    assert other.sampled.weight_spans == one.sampled.weight_spans
    assert other.sampled.ids == one.sampled.ids
    assert other.sampled.logprob_list() == one.sampled.logprob_list()
    for name in ("weights_widened", "resumptions", "finish_reason", "matched", "prompt_tokens", "cached_tokens"):
        assert other.sampled.facts.get(name) == one.sampled.facts.get(name)
    assert replay.unplayed == []


def versions(*spans: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"version": name, "start": start, "end": end} for name, start, end in spans]


def rows_of(count: int, *, first: int = 0) -> str:
    """Rows of one number each, which is their position."""
    return base64.b64encode(b"".join(at.to_bytes(4, "little") for at in range(first, first + count))).decode()


def carried_on(spans: tuple[tuple[str, int, int], ...], **facts: Any) -> Trajectory:
    """One turn of 3 prompt and 4 sampled tokens."""
    trajectory = Trajectory()
    trajectory.add(
        RecordedTurn(
            index=0,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [1, 2, 3]),
            sampled=Segment.of(
                SegmentKind.SAMPLED, [4, 5, 6, 7], weight_spans=spans, facts={"finish_reason": "length", **facts}
            ),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )
    return trajectory


@pytest.mark.parametrize("start", [0, 2])
async def test_rows_of_an_answer_in_parts_are_those_of_their_positions(start: int) -> None:
    rows = {"routed_experts": rows_of(6 - start, first=start), "indexer_topk": rows_of(6)}
    trajectory = carried_on((("2", 2, 4),), **rows, routed_experts_start_len=start)
    request = GenerateRequest(
        input_ids=[1, 2, 3], return_routed_experts=True, return_indexer_topk=True, routed_experts_start_len=start
    )

    reply = await Replay(trajectory).client().send(request)

    assert {"routed_experts": reply.routed_experts, "indexer_topk": reply.indexer_topk} == rows
    assert (reply.routed_experts_refed, reply.indexer_topk_refed) == ((), ())


@pytest.mark.parametrize(
    ("spans", "widened"),
    [
        ((("1", 0, 2), ("2", 2, 4)), None),
        ((("1", 0, 4),), [[0, 4]]),
        ((("2", 2, 4),), None),
        ((), None),
    ],
)
async def test_rows_of_another_prefill_stay_those(spans: tuple[tuple[str, int, int], ...], widened: Any) -> None:
    rows = {"routed_experts": rows_of(6), "indexer_topk": rows_of(6)}
    refed = {"routed_experts_refed": [[0, 4]], "indexer_topk_refed": [[0, 4]]}
    told = {} if widened is None else {"weights_widened": widened}
    trajectory = carried_on(spans, **rows, **refed, **told, routed_experts_start_len=0)
    request = GenerateRequest(input_ids=[1, 2, 3], return_routed_experts=True, return_indexer_topk=True)

    reply = await Replay(trajectory).client().send(request)

    assert {"routed_experts": reply.routed_experts, "indexer_topk": reply.indexer_topk} == rows
    assert (reply.routed_experts_refed, reply.indexer_topk_refed) == (((0, 4),), ((0, 4),))
    assert tuple((span.version, span.start, span.end) for span in reply.weight_versions) == spans


async def test_rows_that_do_not_fit_an_answer_in_parts_are_not_played() -> None:
    for rows in ("AAAA", "!" * 32, rows_of(5)):
        trajectory = carried_on((("2", 2, 4),), indexer_topk=rows)
        with pytest.raises(RecordError, match="indexer_topk is not base64 of 6 rows"):
            await Replay(trajectory).client().send(GenerateRequest(input_ids=[1, 2, 3]))


async def test_an_answer_in_parts_is_not_cut_short_by_a_smaller_budget() -> None:
    request = GenerateRequest(input_ids=[1, 2, 3], sampling_params={"max_new_tokens": 2})

    with pytest.raises(ReplayMismatchError, match="turn 0 has 4 tokens, but only 2 are asked for"):
        await Replay(carried_on((("2", 2, 4),))).client().send(request)


async def test_however_many_parts_there_were_they_are_played() -> None:
    trajectory = Trajectory()
    spans = tuple((str(at), at, at + 1) for at in range(0, 60, 2))
    trajectory.add(
        RecordedTurn(
            index=0,
            parent=None,
            prompt=Segment.of(SegmentKind.PROMPT, [1]),
            sampled=Segment.of(SegmentKind.SAMPLED, range(60), weight_spans=spans),
            conversation=0,
            lineage=Lineage.MAIN,
        )
    )

    reply = await Replay(trajectory).client().send(GenerateRequest(input_ids=[1]))

    assert reply.output_ids == list(range(60))
    assert tuple((span.version, span.start, span.end) for span in reply.weight_versions) == spans


async def test_a_replay_of_nothing_has_a_client() -> None:
    with pytest.raises(ReplayMismatchError, match="all 0 recorded turns were played"):
        await Replay(Trajectory()).client().send(GenerateRequest(input_ids=[1]))


async def test_cached_tokens_that_nobody_told_are_none() -> None:
    reply = await Replay(with_rows(0)).client().send(GenerateRequest(input_ids=[1, 2]))

    assert reply.cached_tokens is None


@pytest.mark.parametrize("name", ["weights_widened", "routed_experts_refed", "indexer_topk_refed"])
@pytest.mark.parametrize("odd", [True, 5, "x", {"a": 1}, [1], [[1]], [["a", "b"]], [[1, 2.0]], [[0, 10**30]]], ids=repr)
async def test_odd_stretches_are_never_played(name: str, odd: Any) -> None:
    replay = Replay(carried_on((("1", 0, 4),), **{name: odd}))

    with pytest.raises(RecordError, match=rf"turns\[0\].sampled.facts.{name} is "):
        await replay.client().send(GenerateRequest(input_ids=[1, 2, 3]))
