"""Random trees of turns, and random episodes of a real agent: what holds of every sample, saved or not."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strands.types.exceptions import MaxTokensReachedException

from strands_sglang import RecordWriter, Trajectory, read_parquet, read_records, write_parquet
from strands_sglang.engine import Turn
from strands_sglang.trajectory import Fork, Lineage, Sample, TurnFate
from strands_sglang.trajectory import Turn as Recorded
from tests.unit.provider.histories.oracle import END, tokenizer
from tests.unit.provider.histories.scene import Mode, Scene, direct, use
from tests.unit.provider.histories.test_anything import DEEDS, Hand

from .trees import examples, trajectories

SAID = st.sampled_from(["A.", "B.", use("note"), use("look_up", topic="t"), '<tool_call>\n{"name": 3}\n</tool_call>'])
ENDINGS = st.sampled_from(["stop", "stop", "stop", "length", "abort"])


def origins(sample: Sample) -> list[tuple[int, str, int]]:
    """Say of each token of a sample, independently of how it was built: its turn, its segment, its place there."""
    places: list[tuple[int, str, int]] = []
    for turn in sample.turns:
        if turn.prompt.replaces:
            del places[-turn.prompt.replaces :]
        places += [(turn.index, "prompt", at) for at in range(len(turn.prompt.ids))]
        places += [(turn.index, "sampled", at) for at in range(len(turn.sampled.ids))]
    return places


def check(trajectory: Trajectory, *, side_calls: bool, discarded: bool) -> None:
    """G1, G4, G5 and G10 of the samples."""
    samples = trajectory.samples(include_side_calls=side_calls, include_discarded=discarded)
    chosen = {
        turn.index
        for turn in trajectory.turns
        if (side_calls or turn.lineage is Lineage.MAIN) and (discarded or turn.fate is not TurnFate.DISCARDED)
    }
    trained: Counter[tuple[int, int]] = Counter()
    for index, sample in enumerate(samples):
        rollout, places = sample.rollout, origins(sample)
        columns = (rollout.token_ids, sample.loss_mask, rollout.logprobs, rollout.weight_versions, rollout.loss_mask)
        assert {len(places), len(rollout)} == {len(column) for column in columns}  # G5
        assert (sample.index, sample.rollout_id, sample.weight) == (index, trajectory.id, 1 / len(samples))
        for place, token, mask, logprob, version, sampled in zip(places, *columns, strict=True):
            number, kind, at = place
            segment = trajectory.turns[number].prompt if kind == "prompt" else trajectory.turns[number].sampled
            assert token == segment.ids[at]  # G1
            assert (logprob, version) == (segment.logprob_list()[at], segment.version_list()[at])
            assert sampled == (kind == "sampled")  # G4
            assert mask <= sampled
            if mask:
                trained[number, at] += 1
        for name in {name for turn in sample.turns for name in turn.credit}:
            values = [trajectory.turns[number].credit.get(name) for number, _, _ in places]
            assert sample.credit(name) == [v if m else None for v, m in zip(values, sample.loss_mask, strict=True)]
    assert set(trained.values()) <= {1}  # G10
    assert {number for number, _ in trained} <= chosen
    in_a_sample = {place[::2] for sample in samples for place in origins(sample) if place[1] == "sampled"}
    assert set(trained) == {place for place in in_a_sample if place[0] in chosen}


@examples(40)
@given(trajectories(), st.booleans(), st.booleans())
def test_samples_of_any_tree_hold_the_guarantees(trajectory: Trajectory, side_calls: bool, discarded: bool) -> None:
    check(trajectory, side_calls=side_calls, discarded=discarded)


@examples(15)
@given(trajectories())
def test_samples_of_a_saved_tree_are_those_of_the_tree(trajectory: Trajectory) -> None:
    loaded = Trajectory.from_json(trajectory.to_json())

    for before, after in zip(trajectory.samples(), loaded.samples(), strict=True):
        assert (after.rollout, after.loss_mask, after.weight) == (before.rollout, before.loss_mask, before.weight)
        assert [turn.index for turn in after.turns] == [turn.index for turn in before.turns]


class Player:
    """Answers requests with what was drawn: whole, cut by length, or in parts with an abort between."""

    def __init__(self, said: list[str], endings: list[str]) -> None:
        self._said, self._endings = iter(said), iter(endings)
        self._rest: list[int] = []
        self.steps: list[Turn] = []

    def __call__(self, prompt: str, number: int) -> Turn:
        ids = self._rest or tokenizer().encode(next(self._said, "Done.") + END, add_special_tokens=False)
        ending = next(self._endings, "stop")
        half = len(ids) if ending == "stop" else max(1, len(ids) // 2)
        self._rest = ids[half:] if ending == "abort" else []
        finish: Any = ending if half < len(ids) else "stop"
        version = f"v{number // 3}"
        self.steps.append(Turn(ids=ids[:half], finish=finish, weight_version=version))
        return self.steps[-1]

    def answers(self, on: Scene) -> list[tuple[list[int], list[int]]]:
        """Return what each answered call read and sampled, parts put together, from the engine's own log."""
        answers: list[tuple[list[int], list[int]]] = []
        goes_on = False
        for request, step in zip(on.engine.requests, self.steps, strict=True):
            ids = on.engine.ids_of(step)
            if goes_on:
                answers[-1][1].extend(ids)
            else:
                answers.append((list(request["input_ids"]), ids))
            goes_on = step.finish == "abort"
        return answers


@examples(12)
@given(
    deeds=st.lists(DEEDS, min_size=2, max_size=7),
    said=st.lists(SAID, max_size=8),
    endings=st.lists(ENDINGS, max_size=16),
    continues=st.booleans(),
)
async def test_whatever_is_done_to_an_agent_its_record_is_exact_and_comes_back(
    tmp_path: Path, deeds: Any, said: list[str], endings: list[str], continues: bool
) -> None:
    player = Player(said, endings)
    on = direct(player, mode=Mode.PLAIN, continue_truncated=continues)
    hand = Hand(on)
    for deed, how in [*deeds, ("ask", "a?")]:
        with contextlib.suppress(MaxTokensReachedException):
            await hand.do(deed, how)
    trajectory = on.model.trajectory

    read = [(turn.rollout().token_ids, turn.sampled.ids.tolist()) for turn in trajectory.turns]
    assert [(ids[: len(ids) - len(sampled)], sampled) for ids, sampled in read] == player.answers(on)
    for side_calls in (True, False):
        check(trajectory, side_calls=side_calls, discarded=not side_calls)
    newest: dict[int, Recorded] = {}
    for turn in trajectory.turns:
        # A turn that does not go on from the newest one always tells why.
        assert (Fork.of(turn.prompt) is None) == (turn.parent is newest.get(turn.conversation))
        newest[turn.conversation] = turn
    assert len(str(trajectory.report(on.text))) > 0

    path = tmp_path / "episodes.jsonl"
    path.unlink(missing_ok=True)
    with RecordWriter(path) as writer:
        writer.write(trajectory)
    assert list(read_records(path)) == [trajectory]
    with contextlib.suppress(ImportError):
        import pyarrow  # noqa: F401

        write_parquet([trajectory], tmp_path / "episodes.parquet")
        assert list(read_parquet(tmp_path / "episodes.parquet")) == [trajectory]
