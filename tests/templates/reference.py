"""Whole renderings by transformers, and tokenizers for templates that come without one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from strands_sglang.errors import ChatTemplateError
from strands_sglang.tokenization.battery.conversations import battery
from strands_sglang.tokenization.battery.shape import Message
from strands_sglang.tokenization.forms import Forms
from strands_sglang.tokenization.vocabulary import Vocabulary


class TransformersRendering:
    """The reference: transformers renders and encodes; of this library only the choice of message forms is used."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, **template_args: Any) -> None:
        self._tokenizer = tokenizer
        self._args = {**tokenizer.special_tokens_map, **template_args}
        self._vocabulary = Vocabulary(tokenizer)
        self._forms = Forms(self._render, "the reference")
        self.control: Mapping[str, int] = {text: token.id for text, token in self._vocabulary.tokens.items()}
        self.eos: str = str(tokenizer.eos_token or "")

    def find(self, text: str) -> Iterator[re.Match[str]]:
        return self._vocabulary.find(text)

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generation_prompt: bool
    ) -> str:
        return self._render(self._forms.apply(messages), tools, generation_prompt=generation_prompt)

    def encode(self, text: str) -> list[int]:
        return cast("list[int]", self._tokenizer.encode(text, add_special_tokens=False))

    def samples(self) -> Iterator[str]:
        """Yield renderings of some shapes, of those the template takes."""
        for shape in battery():
            if shape.name in ("3 turns, system", "2 turns", "reasoning, 2 call rounds, answer, user", "call"):
                try:
                    yield self.render(shape.messages, shape.tools, generation_prompt=True)
                except ChatTemplateError:
                    continue

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        generation_prompt: bool = True,
    ) -> str:
        given = [dict(tool) for tool in tools] or None
        try:
            rendered, _ = cast(Any, render_jinja_template)(
                conversations=[[dict(message) for message in messages]],
                tools=given,
                chat_template=self._tokenizer.get_chat_template(tools=given),
                add_generation_prompt=generation_prompt,
                **self._args,
            )
        except Exception as error:
            raise ChatTemplateError(f"{error} ({type(error).__name__})") from error
        return str(rendered[0])


# What looks like a control token in the source of a template.
_CONTROL = re.compile(
    r"<\|[^|<>\s'\"{}]{1,40}\|?>|<[^|<>\s'\"{}/]{1,40}\|>|<｜[^｜<>\s'\"]{1,40}｜>|\[/?[A-Z][A-Z_]+\]|\[gMASK\]|\[/?[a-z]*\|[a-z_|]+\]"
    r"|</?s>|<(?:bos|eos|sop|eod|pad|unk)>|</?(?:system|user|assistant|role)>|<sep>|</?[a-z_]+:[0-9a-f]{8}>|</?(?:think|tool_call|tool_response|seed:think|mm:think)>|<seed:[a-z_]+>"
    r"|<(?:start|end)_of_(?:turn|image)>|<(?:start|end)_function_(?:call|response|declaration)>|\[e~\[|\]~b\]|\]~!b\["
    r"|<extra_id_\d+>|<SPECIAL_\d+>|<think:opensource>|</think:opensource>"
)
_ENDS = (
    "<|return|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|END_OF_TURN_TOKEN|>",
    "<sep>",
    "</s>",
)
_BEGINS = ("<|begin_of_text|>", "<bos>", "<｜begin▁of▁sentence｜>", "<s>")


def stand_in_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of single bytes whose control tokens are those a template writes.

    It tells texts apart as exactly as any tokenizer, so that a template can be checked whose own tokenizer is in no
    package.
    """
    named = dict.fromkeys(match[0] for match in _CONTROL.finditer(template))
    eos = next((end for end in _ENDS if end in named), "</s>")
    bos = next((begin for begin in _BEGINS if begin in named), "<s>")
    # Some are put together while rendering, as in "<|" + role + "|>".
    written = TransformersRendering(_of_bytes(template, [], bos=bos, eos=eos)).samples()
    named |= dict.fromkeys(match[0] for text in written for match in _CONTROL.finditer(text))
    if "<think>" in named:
        named["</think>"] = None  # many templates only ever write the opening mark
    return _of_bytes(template, list(named), bos=bos, eos=eos)


def _of_bytes(template: str, control: list[str], *, bos: str, eos: str) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in dict.fromkeys([*control, eos, bos])])
    tokenizer = cast(Any, PreTrainedTokenizerFast)(tokenizer_object=backend, bos_token=bos, eos_token=eos)
    tokenizer.chat_template = template
    return cast(PreTrainedTokenizerFast, tokenizer)
