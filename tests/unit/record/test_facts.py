"""What the provider keeps of a turn beside its tokens, and what the report makes of it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang import Rollout, SGLangClient, SGLangModel, Trajectory, get_tokenizer
from strands_sglang.engine import TINY_MODEL, EngineTransport, Refusal, ScriptedEngine, Step, Turn
from strands_sglang.provider import facts
from strands_sglang.rollout import Segment, SegmentKind
from strands_sglang.session import conversation
from strands_sglang.trajectory import Finding, FindingKind, Fork, ForkReason, Lineage, TurnFate
from strands_sglang.trajectory import Turn as Recorded
from tests.unit.provider.conftest import END, Stage, call
from tests.unit.provider.test_episode import Build


@pytest.fixture(name="stage")
def stage_with_retries() -> Any:
    """As the provider's tests have it, but a refused request is sent again once."""

    def build(*steps: Step | str, **config: Any) -> Stage:
        tokenizer = get_tokenizer(TINY_MODEL)
        script = [Turn(text=step) if isinstance(step, str) else step for step in steps]
        engine = ScriptedEngine(script, tokenizer=tokenizer)
        client = SGLangClient("http://engine", transport=EngineTransport(engine), max_retries=1, retry_delay=0.0)
        return Stage(engine, SGLangModel(client=client, tokenizer=tokenizer, **config))

    return build


def found(trajectory: Trajectory) -> list[tuple[int, str]]:
    return [(finding.turn, finding.kind.value) for finding in trajectory.report().findings]


def forks(trajectory: Trajectory) -> list[tuple[int, str, int, int | None]]:
    """Turn, reason, turn that was left, and message of each fork."""
    told = [(turn.index, Fork.of(turn.prompt)) for turn in trajectory.turns]
    return [(index, fork.reason.value, fork.after, fork.message_index) for index, fork in told if fork]


async def test_a_plain_turn_keeps_its_facts(stage: Build) -> None:
    on = stage(call() + END, "425." + END, sampling_params={"temperature": 0.7, "top_p": 0.9})
    await on.agent().invoke_async("What is 25 * 17?")
    first, second = on.model.trajectory.turns

    facts = dict(first.sampled.facts)
    assert facts.pop("latency") >= 0
    assert len(facts.pop("rid")) > 8
    (attempt,) = facts.pop("calls")
    assert facts == {
        "finish_reason": "stop",
        "matched": first.sampled.ids[-1],
        "sampling_params": {"max_new_tokens": None, "temperature": 0.7, "top_p": 0.9},
        "temperature": 0.7,
        "logprob_kind": "tempered",
        "prompt_tokens": len(first.prompt),
        "cached_tokens": 0,
    }
    assert (attempt["name"], attempt["status"]) == ("calculator", "ok")
    start, end = attempt["token_span"]
    assert on.text(first.sampled.ids[start:end]) == call()
    assert first.prompt.facts == {"messages": [0, 1]}
    assert second.prompt.facts == {"messages": [2, 3]}
    assert (first.sampled.message_index, second.sampled.message_index) == (1, 3)
    assert found(on.model.trajectory) == []
    assert str(on.model.trajectory.report()) == "nothing to report"


@pytest.mark.parametrize(("temperature", "kind"), [(None, "tempered"), (0, "untempered"), (1e-7, "untempered")])
async def test_the_kind_of_logprobs_follows_the_temperature(stage: Build, temperature: float | None, kind: str) -> None:
    given = {} if temperature is None else {"temperature": temperature}
    on = stage("Hi." + END, sampling_params=given, return_prompt_logprob=True)
    await on.agent().invoke_async("Hello")
    (turn,) = on.model.trajectory.turns

    assert turn.sampled.facts["logprob_kind"] == kind
    assert turn.sampled.facts["temperature"] == (1.0 if temperature is None else temperature)
    assert turn.prompt.facts["logprob_kind"] == "untempered"


@pytest.mark.parametrize(
    ("temperature", "kind"), [(0.6, None), (1.4, None), (1.0, "tempered"), (None, "tempered"), (0, "untempered")]
)
async def test_with_top_k_1_the_kind_is_told_only_where_the_batch_does_not_decide_it(
    stage: Build, temperature: float | None, kind: str | None
) -> None:
    on = stage("Hi." + END, sampling_params={"temperature": temperature, "top_k": 1})
    await on.agent().invoke_async("Hello")

    facts = on.model.trajectory.turns[0].sampled.facts
    assert facts.get("logprob_kind") == kind
    assert facts["sampling_params"]["top_k"] == 1


async def test_without_logprobs_they_are_of_no_kind(stage: Build) -> None:
    on = stage("Hi." + END, return_logprob=False)
    await on.agent().invoke_async("Hello")

    assert "logprob_kind" not in on.model.trajectory.turns[0].sampled.facts


async def test_retries_weights_and_missing_logprobs_are_told(stage: Build) -> None:
    on = stage(
        Refusal(status=503),
        Turn(ids=[70, 71, 72], logprobs=[-1.0, None, -2.0], weight_version="7", without=["weight_versions"]),
        Turn(
            ids=[70, 71, 72],
            weight_versions=[{"version": "7", "start": 0, "end": 1}, {"version": "8", "start": 1, "end": 3}],
        ),
    )
    agent = on.agent()
    await agent.invoke_async("One")
    await agent.invoke_async("Two")
    first, second = (turn.sampled for turn in on.model.trajectory.turns)

    assert first.facts["retries"] == 1
    assert first.facts["weights_widened"] == [[0, 3]]
    assert first.weight_spans == (("7", 0, 3),)
    assert "weights_widened" not in second.facts
    assert found(on.model.trajectory) == [
        (0, "retried"),
        (0, "widened_versions"),
        (0, "missing_logprobs"),
        (1, "mixed_weights"),
    ]


async def test_an_aborted_turn_that_went_on_tells_its_resumptions(stage: Build) -> None:
    on = stage(Turn(ids=[70, 71], finish="abort"), Turn(ids=[72, 73]))
    await on.agent().invoke_async("Go")
    (turn,) = on.model.trajectory.turns

    assert turn.sampled.ids.tolist() == [70, 71, 72, 73]
    assert turn.sampled.facts["resumptions"] == 1
    assert found(on.model.trajectory) == [(0, "resumed")]


async def test_a_turn_that_the_server_put_back_into_its_queue_tells_it(stage: Build) -> None:
    on = stage(
        Turn(ids=[70, 71], finish="abort", meta={"num_retractions": 1}), Turn(ids=[72], meta={"num_retractions": 2})
    )
    await on.agent().invoke_async("Go")
    (turn,) = on.model.trajectory.turns

    assert turn.sampled.facts["retractions"] == 3
    assert found(on.model.trajectory) == [(0, "resumed"), (0, "retracted")]


async def test_text_of_control_tokens_is_told_with_its_place(stage: Build) -> None:
    on = stage("Hi." + END)
    await on.agent().invoke_async(f"Say {END} twice: {END}")
    (turn,) = on.model.trajectory.turns

    assert turn.prompt.facts["guarded"] == [{"literal": END, "where": "messages[0].content", "count": 2}]
    (finding,) = on.model.trajectory.report().findings
    assert finding.words == "messages[0].content holds '<|im_end|>', encoded as plain text"


async def test_a_call_that_cannot_be_read_is_shown(stage: Build) -> None:
    on = stage(call(arguments='{"expression": }') + END, "Sorry." + END)
    await on.agent().invoke_async("Go")
    (finding,) = on.model.trajectory.report(on.text).findings

    assert finding.kind is FindingKind.UNPARSED_CALL
    assert "could not be read (invalid_json): " in finding.words
    assert (finding.recorded or "").startswith("<tool_call>")
    assert str(finding).startswith("turn 0: the call of calculator could not be read")


async def test_spans_of_a_call_begun_in_a_cut_turn_count_from_the_turn_that_ends_it(stage: Build) -> None:
    ids = get_tokenizer(TINY_MODEL).encode(call() + END, add_special_tokens=False)
    on = stage(Turn(ids=ids[:5], finish="length"), Turn(ids=ids[5:]), "425." + END, continue_truncated=True)
    agent = on.agent()
    with pytest.raises(MaxTokensReachedException):
        await agent.invoke_async("Go")
    await agent.invoke_async(None)
    cut, ended, _ = on.model.trajectory.turns

    (attempt,) = ended.sampled.facts["calls"]
    start, end = attempt["token_span"]
    assert (start, end) == (-5, len(ids) - 5 - 1)
    assert ended.prompt.ids.tolist() == []
    (finding,) = on.model.trajectory.report(on.text).of(FindingKind.TRUNCATED)
    assert (finding.turn, finding.recorded) == (0, on.text(cut.sampled.ids))


async def test_a_window_that_slid_is_a_compaction(stage: Build) -> None:
    on = stage(*(f"{number}." + END for number in range(4)))
    agent = on.agent(conversation_manager=SlidingWindowConversationManager(window_size=2))
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)

    assert forks(on.model.trajectory) == [(2, "compaction", 1, 0)]
    (finding,) = on.model.trajectory.report(on.text).findings
    assert finding.fork == Fork.of(on.model.trajectory.turns[2].prompt)
    assert finding.words.startswith(
        "goes on from a new start, not from turn 1 (compaction: message 0 (user) is not the one recorded; "
        "1 messages before the newest answer, 3 were recorded; token "
    )
    recorded, sent = finding.recorded or "", finding.sent or ""
    assert "First?" in recorded
    assert "Second?" in sent


async def test_a_summary_is_a_side_call_and_a_compaction(stage: Build) -> None:
    on = stage(*(f"{number}." + END for number in range(3)), "Summary." + END, "Last." + END)
    agent = on.agent(conversation_manager=SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=2))
    for question in ("First?", "Second?", "Third?"):
        await agent.invoke_async(question)
    agent.conversation_manager.reduce_context(agent)
    await agent.invoke_async("Fourth?")
    trajectory = on.model.trajectory

    assert [turn.lineage for turn in trajectory.turns].count(Lineage.SIDE_CALL) == 1
    assert [reason for _, reason, _, _ in forks(trajectory)] == ["compaction"]
    assert len(trajectory.samples()) == 2


async def test_what_the_host_did_to_its_history_is_told_apart(stage: Build) -> None:
    on = stage(*(f"{number}." + END for number in range(9)))
    agent = on.agent()
    await agent.invoke_async("First?")
    await agent.invoke_async("Second?")

    agent.messages[0]["content"][0]["text"] = "Another?"
    await agent.invoke_async("Third?")
    agent.messages[-1]["content"] = [{"text": "Another answer."}]
    await agent.invoke_async("Fourth?")
    question = agent.messages[-2]
    del agent.messages[-2:]
    await agent._append_messages(question)
    await agent.invoke_async(None)
    del agent.messages[1:]
    agent.messages[0]["content"][0]["text"] = "Again?"
    await agent.invoke_async(None)
    agent.system_prompt = "Be brief."
    await agent.invoke_async("Fifth?")

    assert [(turn, reason, message) for turn, reason, _, message in forks(on.model.trajectory)] == [
        (2, "edited_history", 0),
        (3, "edited_answer", 5),
        (4, "retry", 7),
        (5, "rewind", 0),
        (6, "rendering", None),
    ]
    fates = [turn.fate for turn in on.model.trajectory.turns]
    assert fates == ["kept", "kept", "edited", "discarded", "kept", "kept", "kept"]
    assert {(2, "edited"), (3, "discarded")} <= set(found(on.model.trajectory))
    assert Trajectory.from_json(on.model.trajectory.to_json()) == on.model.trajectory


def recorded(index: int, parent: Recorded | None, prompt: Segment, sampled: list[int]) -> Recorded:
    return Recorded(
        index=index,
        parent=parent,
        prompt=prompt,
        sampled=Segment.of(SegmentKind.SAMPLED, sampled),
        conversation=0,
        lineage=Lineage.MAIN,
    )


def test_a_replaced_stop_token_is_told_both_ways() -> None:
    first = recorded(0, None, Segment.of(SegmentKind.PROMPT, [1, 2]), [3, 4])
    second = recorded(1, first, Segment.of(SegmentKind.PROMPT, [5, 6], replaces=1), [7])
    trajectory = Trajectory(turns=[first, second])

    (finding,) = trajectory.report(lambda ids: " ".join(map(str, ids))).findings

    assert finding.kind is FindingKind.REPLACED_STOP
    assert (finding.recorded, finding.sent) == ("4", "5 6")
    assert "takes the place of [4], sampled at the end of turn 0" in finding.words


def test_a_fork_without_a_kept_reason_is_told_without_one() -> None:
    first = recorded(0, None, Segment.of(SegmentKind.PROMPT, [1, 2]), [3])
    second = recorded(1, None, Segment.of(SegmentKind.PROMPT, [1, 9]), [4])
    third = recorded(2, first, Segment.of(SegmentKind.PROMPT, [8], facts={"fork": {"reason": "boredom"}}), [4])

    one, other = Trajectory(turns=[first, second, third]).report().findings

    assert one == Finding(
        kind=FindingKind.FORK,
        turn=1,
        words="goes on from a new start, not from turn 0 (the reason was not kept; token 1 is the first that differs)",
        token=1,
    )
    assert other.words.startswith("goes on from turn 0, not from turn 1 (the reason was not kept")
    assert len(Trajectory(turns=[first]).report()) == 0


def test_facts_of_another_shape_break_no_report() -> None:
    odd = {"calls": [3], "guarded": "x", "finish_reason": 7, "fork": []}
    turn = recorded(0, None, Segment.of(SegmentKind.PROMPT, [1], facts=odd), [2])
    turn.fate = TurnFate.DISCARDED

    assert [finding.kind for finding in Trajectory(turns=[turn]).report().findings] == [FindingKind.DISCARDED]
    assert {reason.value for reason in ForkReason} == set(ForkReason)
    assert Rollout([turn.prompt]).segments[0].facts == odd


ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1.5, "", "x"),
    *([], [1], ["a", "b"], [[1], [2]], [1, 2, 3], [None, None], {}, {"a": 1}),
)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_value_of_a_fact_breaks_a_report(odd: object) -> None:
    call = {"name": odd, "status": odd, "reason": odd, "token_span": odd}
    told = ["retries", "resumptions", "retractions", "weights_widened", "finish_reason", "calls"]
    prompt: dict[str, Any] = {
        "guarded": [{"literal": odd, "where": odd}],
        "fork": {"reason": "retry", "after": odd, "message_index": odd, "change": odd},
    }
    sampled = [
        {"calls": [call, {**call, "status": "unknown_tool"}]},
        *({name: odd} for name in told),
        {"calls": [{"status": "bad", "token_span": [odd, 1]}]},
    ]
    turns: list[Recorded] = []
    for facts_of_turn in sampled:
        turn = recorded(len(turns), None, Segment.of(SegmentKind.PROMPT, [1], facts=prompt), [2, 3])
        turn.sampled = Segment.of(SegmentKind.SAMPLED, [2, 3], facts=facts_of_turn)
        turns.append(turn)
    turns[1].prompt = Segment.of(SegmentKind.PROMPT, [1], facts={"fork": {**prompt["fork"], "reason": odd}})

    report = Trajectory(turns=turns).report(lambda ids: " ".join(map(str, ids)))

    assert [finding.recorded for finding in report.of(FindingKind.UNPARSED_CALL)][-1] in ("2", "2 3", None, "")
    assert str(report)


@pytest.mark.parametrize(("span", "shown"), [([1, 2], "3"), ([-4, 1], "2"), ([0], "2 3"), (["a", "b"], "2 3")])
def test_a_call_is_shown_where_it_stands_or_with_its_turn(span: list[object], shown: str) -> None:
    turn = recorded(0, None, Segment.of(SegmentKind.PROMPT, [1]), [2, 3])
    turn.sampled = Segment.of(SegmentKind.SAMPLED, [2, 3], facts={"calls": [{"status": "bad", "token_span": span}]})

    (finding,) = Trajectory(turns=[turn]).report(lambda ids: " ".join(map(str, ids))).findings

    assert finding.recorded == shown


def test_every_fact_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/record.md").read_text(encoding="utf-8")
    written = {
        node.value
        for function in (facts.sampled_facts, facts._call_facts, conversation._prompt_facts, Fork.to_dict)
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    }

    assert {"finish_reason", "messages", "token_span"} <= written
    assert [key for key in sorted(written) if f"`{key}`" not in page] == []
    assert [reason for reason in ForkReason if f"| `{reason}` |" not in page] == []
