"""Make the tokenizer, render dialogues with the chat template, and encode them for training.

Owns ``tokenizer.json``, ``tokenizer_config.json`` and the loss mask.  The template itself is
``src/strands_sglang/engine/tiny_model/chat_template.jinja``, written by hand.

Usage::

    python tokenizer.py [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import data
import jinja2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PACKAGE_DATA = pathlib.Path(__file__).resolve().parents[2] / "src/strands_sglang/engine/tiny_model"
if not PACKAGE_DATA.is_dir():  # beside an installed package, without the sources
    from strands_sglang.engine import TINY_MODEL

    PACKAGE_DATA = pathlib.Path(TINY_MODEL)
TEMPLATE_FILE = PACKAGE_DATA / "chat_template.jinja"
VOCABULARY_SIZE = 1024
END_OF_TEXT, START, END = SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
# The split pattern of the Qwen tokenizers: every digit is a token of its own.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FIRST_SEED, DIALOGUES = 10_000_000, 4000


def load_template() -> jinja2.Template:
    """Compile the chat template as transformers does: JSON is written in the order of its keys."""
    environment = jinja2.Environment()
    environment.filters["tojson"] = _to_json
    return environment.from_string(TEMPLATE_FILE.read_text(encoding="utf-8"))


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


TEMPLATE = load_template()


def render(
    messages: list[data.Message],
    tools: list[data.Tool] | None = None,
    add_generation_prompt: bool = False,
    **switches: bool,
) -> str:
    """Render a conversation.

    Args:
        messages: Messages in the form of the OpenAI API.
        tools: Tools in the same form.
        add_generation_prompt: End with the header of the next assistant message.
        **switches: ``enable_thinking`` and ``preserve_thinking``, see the template.

    Returns:
        The text that the model reads.
    """
    return TEMPLATE.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **switches)


def corpus() -> Iterator[str]:
    """Render the dialogues from which the tokenizer is made, without the special tokens and tags."""
    for seed in range(FIRST_SEED, FIRST_SEED + DIALOGUES):
        messages, tools, switches = data.dialogue(seed)
        text = render(messages, tools, **switches)
        for token in (*SPECIAL_TOKENS, *TAGS):
            text = text.replace(token, "\n")
        yield text


def make() -> Tokenizer:
    """Make the byte-level BPE tokenizer from the corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - len(SPECIAL_TOKENS) - len(TAGS),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return tokenizer


def save(tokenizer: Tokenizer, out: pathlib.Path) -> None:
    """Write the tokenizer's two files, and the template if it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END_OF_TEXT,
        "bos_token": None,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    if out.resolve() != PACKAGE_DATA:
        shutil.copyfile(TEMPLATE_FILE, out / TEMPLATE_FILE.name)


class Encoder:
    """Turns dialogues into ids and a loss mask."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Load ``tokenizer.json`` from a folder."""
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.pad, self.start, self.end = (self.tokenizer.token_to_id(token) for token in SPECIAL_TOKENS)
        self.header = [self.start, *self.tokenizer.encode("assistant\n").ids]

    def encode(self, text: str) -> list[int]:
        """Encode rendered text."""
        return self.tokenizer.encode(text).ids

    def decode(self, ids: list[int]) -> str:
        """Decode ids, special tokens included."""
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def example(self, dialogue: data.Dialogue) -> tuple[list[int], list[bool]]:
        """Encode a dialogue for training.

        Args:
            dialogue: What :func:`data.dialogue` gives.

        Returns:
            The ids, and for each whether the assistant writes it (``<|im_end|>`` included).  Where the template has cut
            the reasoning from earlier turns, only the last turn counts.
        """
        messages, tools, switches = dialogue
        ids = self.encode(render(messages, tools, **switches))
        spans = self._spans(ids)
        if switches.get("preserve_thinking") is False:
            last_user = max(i for i, message in enumerate(messages) if message["role"] == "user")
            spans = spans[-sum(message["role"] == "assistant" for message in messages[last_user:]) :]
        mask = [False] * len(ids)
        for begin, end in spans:
            mask[begin:end] = [True] * (end - begin)
        return ids, mask

    def _spans(self, ids: list[int]) -> list[tuple[int, int]]:
        """Find what the assistant writes: from behind each header to the end token behind it."""
        size = len(self.header)
        begins = [i + size for i in range(len(ids) - size) if ids[i : i + size] == self.header]
        return [(begin, ids.index(self.end, begin) + 1) for begin in begins]


def main() -> None:
    """Make the tokenizer and print what it does to dialogues."""
    parser = argparse.ArgumentParser(description="Make the tokenizer of the tiny model.")
    parser.add_argument("--out", type=pathlib.Path, default=PACKAGE_DATA, help="where the files go")
    out = parser.parse_args().out
    save(make(), out)
    encoder = Encoder(out)
    lengths = sorted(len(encoder.example(data.dialogue(seed))[0]) for seed in range(1000))
    print(f"vocabulary {encoder.tokenizer.get_vocab_size()}, ", end="")
    print(f"tokens of a dialogue: median {lengths[500]}, 95 % {lengths[950]}, longest {lengths[-1]}")


if __name__ == "__main__":
    main()
