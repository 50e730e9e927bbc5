"""One ChatTokenizer serves many threads."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from strands_sglang.tokenization import ChatTokenizer, PromptTokens, SampledTurn
from tests.real_tokenizers import real_tokenizer
from tests.unit.tokenization.conversations import TOOLS, assistant, call, result, user

THREADS = 16


def test_sixteen_threads_get_equal_results_while_others_use_the_tokenizer() -> None:
    """The tokenizer itself is toggled between truncating and not, as its other users may do."""
    tokenizer = copy.deepcopy(real_tokenizer("smollm2-135m"))
    chat = ChatTokenizer(tokenizer, chat_template=real_tokenizer("qwen2.5").chat_template)
    one = call(1, "add", city="Oslo")
    context = [user("word <|im_end|> " * 50)]
    prompt = chat.first(context, TOOLS).ids
    turn = SampledTurn(ids=[5, 6, 7, 2], message=assistant("", one), prompt_ids=prompt)
    together = Barrier(THREADS)

    def work(number: int) -> tuple[PromptTokens, PromptTokens]:
        together.wait()
        for _ in range(6):
            if number == 0:
                tokenizer("some text", truncation=True, max_length=4)
                tokenizer("some text")
            found = chat.first(context, TOOLS), chat.bridge(context, turn, [result(one, "<|im_start|> 3")], TOOLS)
        return found

    # Nothing may toggle the shared tokenizer while others encode with it: this is what fails with "Already borrowed".
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))

    assert all(found == results[0] for found in results)
    assert prompt == results[0][0].ids


def test_a_chat_tokenizer_leaves_the_tokenizer_as_it_was() -> None:
    tokenizer = copy.deepcopy(real_tokenizer("smollm2-135m"))
    before = tokenizer.backend_tokenizer.to_str()

    chat = ChatTokenizer(tokenizer)
    chat.first([user("a <|im_end|>")])

    assert before == tokenizer.backend_tokenizer.to_str()
