"""One conversation without a host: what it recognises, what it refuses, and what it notes of earlier answers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from strands_sglang.errors import HistoryDivergedError, StaleTurnError
from strands_sglang.session import Conversation, HostHistory, OnDivergence, fingerprint
from strands_sglang.tokenization import ChatTokenizer
from strands_sglang.trajectory import Lineage, Trajectory, Turn
from strands_sglang.wire import FinishReason, FinishType, GenerateReply

from .histories.oracle import END, tokenizer

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def history(*messages: Message, system: str | None = None, ids: Sequence[str | None] | None = None) -> HostHistory:
    """A history whose messages are in chat form already."""
    first = [{"role": "system", "content": system}] if system else []
    return HostHistory(
        messages=messages,
        system=system,
        tools=None,
        chat=lambda start, stop: [*(first if start == 0 else []), *messages[start:stop]],
        images=lambda start, stop: (),
        identities=ids,
    )


def conversation(**options: Any) -> Conversation:
    chat_tokenizer = ChatTokenizer(tokenizer())
    return Conversation(
        chat_tokenizer=chat_tokenizer, trajectory=Trajectory(), number=0, lineage=Lineage.MAIN, **options
    )


def reply(text: str) -> GenerateReply:
    ids = tokenizer()(text + END, add_special_tokens=False).input_ids
    return GenerateReply(
        output_ids=ids,
        output_logprobs=None,
        finish_reason=FinishReason(type=FinishType.STOP, matched=ids[-1]),
        text=None,
        prompt_tokens=None,
        completion_tokens=len(ids),
    )


def answer(on: Conversation, asked: HostHistory, text: str) -> Turn:
    return on.prepare(asked).commit(reply(text), answers=[assistant(text)], facts={})


def test_a_turn_is_committed_once() -> None:
    pending = conversation().prepare(history(user("a?")))
    pending.commit(reply("A."), answers=[], facts={})

    with pytest.raises(StaleTurnError):
        pending.commit(reply("A."), answers=[], facts={})


def test_preparing_adds_nothing_to_the_record() -> None:
    on = conversation()
    answer(on, history(user("a?")), "A.")

    for _ in range(3):
        on.prepare(history(user("a?"), assistant("A."), user("b?")))

    assert len(on.trajectory.turns) == 1


def test_turns_prepared_at_once_are_committed_in_any_order() -> None:
    on = conversation()
    first, second = on.prepare(history(user("a?"))), on.prepare(history(user("b?")))

    second.commit(reply("B."), answers=[assistant("B.")], facts={})
    first.commit(reply("A."), answers=[assistant("A.")], facts={})
    third = answer(on, history(user("b?"), assistant("B."), user("c?")), "C.")

    assert [turn.index for turn in on.trajectory.turns] == [0, 1, 2]
    assert third.parent is on.trajectory.turns[0]
    assert {turn.fate for turn in on.trajectory.turns} == {"kept"}


def test_threads_commit_to_one_trajectory_without_gaps() -> None:
    trajectory, lock = Trajectory(), threading.Lock()
    shared = [
        Conversation(
            chat_tokenizer=ChatTokenizer(tokenizer()), trajectory=trajectory, number=n, lineage=Lineage.AGENT, lock=lock
        )
        for n in range(4)
    ]

    def talk(on: Conversation) -> None:
        messages: list[Message] = []
        for n in range(10):
            messages += [user(f"{n}?")]
            answer(on, history(*messages), f"{n}.")
            messages += [assistant(f"{n}.")]

    threads = [threading.Thread(target=talk, args=(on,)) for on in shared]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [turn.index for turn in trajectory.turns] == list(range(40))
    assert len(trajectory.leaves) == 4


@pytest.mark.parametrize(
    ("changed", "index", "words"),
    [
        (history(user("other?"), assistant("A."), user("b?")), 0, r"message 0 \(user\) is not the one recorded"),
        (history(user("a?"), assistant("Other."), user("b?")), 1, r"message 1 \(assistant\)"),
        (history(user("a?")), 1, "the history ends after 1 messages, 2 were recorded"),
        (history(user("a?"), assistant("A."), user("b?"), system="S"), None, "system prompt or tools"),
    ],
)
def test_a_changed_history_is_refused_by_what_changed(changed: HostHistory, index: int | None, words: str) -> None:
    on = conversation()
    answer(on, history(user("a?")), "A.")

    with pytest.raises(HistoryDivergedError, match=words) as raised:
        on.prepare(changed, on_divergence=OnDivergence.RAISE)

    assert raised.value.message_index == index


def test_going_back_to_an_older_answer_is_refused() -> None:
    on = conversation()
    answer(on, history(user("a?")), "A.")
    answer(on, history(user("a?")), "B.")

    with pytest.raises(HistoryDivergedError):
        on.prepare(history(user("a?"), assistant("A."), user("b?")), on_divergence=OnDivergence.RAISE)


@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        (None, None, "discarded"),
        (["1"], ["1"], "discarded"),
        (["1"], ["2"], "kept"),
        (["1"], None, "discarded"),
    ],
)
def test_a_question_asked_again_is_told_from_an_equal_one_asked_anew(
    before: list[str | None] | None, after: list[str | None] | None, fate: str
) -> None:
    on = conversation()
    first = answer(on, history(user("a?"), ids=before), "A.")

    on.prepare(history(user("a?"), ids=after))

    assert first.fate == fate


def test_everything_since_the_question_that_is_asked_again_was_thrown_away() -> None:
    on = conversation()
    first = answer(on, history(user("a?")), "A.")
    second = answer(on, history(user("a?"), assistant("A."), user("b?")), "B.")
    third = answer(on, history(user("a?"), assistant("A."), user("b?"), assistant("B."), user("c?")), "C.")

    on.prepare(history(user("a?"), assistant("A."), user("b?")))

    assert [turn.fate for turn in (first, second, third)] == ["kept", "discarded", "discarded"]


def test_a_context_that_was_cut_down_throws_nothing_away() -> None:
    on = conversation()
    first = answer(on, history(user("a?")), "A.")
    second = answer(on, history(user("a?"), assistant("A."), user("b?")), "B.")

    on.prepare(history(user("a?"), user("b?"), assistant("B."), user("c?")))

    assert (first.fate, second.fate) == ("kept", "kept")


def test_what_the_host_writes_for_an_answer_that_it_threw_away_is_no_edit() -> None:
    on = conversation(stand_ins=frozenset([fingerprint(assistant("Cancelled."))]))
    first = answer(on, history(user("a?")), "A.")
    on.prepare(history(user("a?"), assistant("Cancelled."), user("b?")))
    assert first.fate == "discarded"

    on = conversation()
    first = answer(on, history(user("a?")), "A.")
    on.prepare(history(user("a?"), assistant("Cancelled."), user("b?")))
    assert first.fate == "edited"


def test_an_answer_that_was_thrown_away_is_not_edited_afterwards() -> None:
    on = conversation()
    first = answer(on, history(user("a?")), "A.")
    on.prepare(history(user("a?")))

    on.prepare(history(user("a?"), assistant("Of another model."), user("b?")))

    assert first.fate == "discarded"


@pytest.mark.parametrize(
    "equal", [({"a": 1}, {"a": True}), ({"a": 1}, {"a": 1.0}), ({"a": 0, "b": 0}, {"b": 0, "a": 0})]
)
def test_values_that_a_template_tells_apart_have_different_fingerprints(equal: tuple[Any, Any]) -> None:
    assert equal[0] == equal[1]
    assert fingerprint(equal[0]) != fingerprint(equal[1])


def test_equal_values_have_equal_fingerprints_wherever_they_come_from() -> None:
    interned, built = "text", "".join(["te", "xt"])

    assert fingerprint({interned: [interned, None, b"x", 1 << 70]}) == fingerprint(
        {built: [built, None, b"x", 1 << 70]}
    )


def test_a_lineage_that_is_corrected_relabels_its_turns() -> None:
    on = conversation()
    first = answer(on, history(user("a?")), "A.")

    on.lineage = Lineage.SIDE_CALL
    second = answer(on, history(user("a?"), assistant("A."), user("b?")), "B.")

    assert (first.lineage, second.lineage) == ("side_call", "side_call")
