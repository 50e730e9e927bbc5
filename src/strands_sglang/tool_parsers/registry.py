"""Names to parsers.

Owns the table of formats (name to "module:Class", loaded on first use), the aliases under which SGLang and
vLLM know them, and `register_tool_parser` for parsers written elsewhere. A registered name wins over the
table, the table over the aliases. Never imports a format that was not asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from strands_sglang.errors import SGLangConfigError, UnknownNameError

if TYPE_CHECKING:
    from strands_sglang.tool_parsers.base import ToolParser

T = TypeVar("T")

FORMATS: dict[str, str] = {
    "apertus": "apertus:ApertusToolParser",
    "beam": "beam:BeamToolParser",
    "cohere": "cohere:CohereToolParser",
    "deepseek_v3": "deepseek_v3:DeepSeekV3ToolParser",
    "deepseek_v31": "deepseek_v3:DeepSeekV31ToolParser",
    "deepseek_v32": "deepseek_v32:DeepSeekV32ToolParser",
    "deepseek_v4": "deepseek_v32:DeepSeekV4ToolParser",
    "deepseek_v41": "deepseek_v32:DeepSeekV41ToolParser",
    "dots": "dots:DotsToolParser",
    "ernie45": "ernie45:Ernie45ToolParser",
    "functiongemma": "gemma4:FunctionGemmaToolParser",
    "gemma4": "gemma4:Gemma4ToolParser",
    "gigachat3": "gigachat3:GigaChat3ToolParser",
    "gigachat35": "deepseek_v32:GigaChat35ToolParser",
    "glm": "glm:GLMToolParser",
    "gpt_oss": "gpt_oss:GptOssToolParser",
    "granite": "granite:GraniteToolParser",
    "granite_20b_fc": "granite:Granite20BToolParser",
    "hermes": "hermes:HermesToolParser",
    "hunyuan": "hy_v3:HunyuanToolParser",
    "hunyuan_a13b": "tool_calls_list:ToolCallsListParser",
    "hy_v3": "hy_v3:HyV3ToolParser",
    "hy_v4": "hy_v3:HyV4ToolParser",
    "inkling": "inkling:InklingToolParser",
    "internlm2": "internlm2:InternLM2ToolParser",
    "iquest": "iquest:IQuestToolParser",
    "k2_horizon": "k2_horizon:K2HorizonToolParser",
    "kimi_k2": "kimi_k2:KimiK2ToolParser",
    "kimi_k3": "kimi_k3:KimiK3ToolParser",
    "lfm2": "lfm2:LFM2ToolParser",
    "llama3_json": "llama3_json:Llama3JSONToolParser",
    "longcat": "longcat:LongCatToolParser",
    "longcat_v2": "longcat:LongCatV2ToolParser",
    "mimo": "mimo:MiMoToolParser",
    "minicpm5": "minicpm5:MiniCPM5ToolParser",
    "minimax_m1": "minimax_m1:MiniMaxM1ToolParser",
    "minimax_m2": "minimax_m2:MiniMaxM2ToolParser",
    "minimax_m3": "minimax_m3:MiniMaxM3ToolParser",
    "mistral_v3": "mistral:MistralV3ToolParser",
    "mistral": "mistral:MistralToolParser",
    "mistral_v11": "mistral:MistralV11ToolParser",
    "muse": "muse:MuseToolParser",
    "nemotron_v2": "tool_calls_list:NemotronV2ToolParser",
    "olmo3": "olmo3:Olmo3ToolParser",
    "phi4_mini": "phi4_mini:Phi4MiniToolParser",
    "plamo3": "plamo3:PLaMo3ToolParser",
    "pythonic": "pythonic:PythonicToolParser",
    "qwen_xml": "qwen_xml:QwenXMLToolParser",
    "response_template": "response_template:ResponseTemplateToolParser",
    "seed_oss": "seed_oss:SeedOSSToolParser",
    "step3": "step3:Step3ToolParser",
    "xlam": "xlam:XLAMToolParser",
}
"""Our formats: name to module and class below this package."""

ALIASES: dict[str, str] = {
    "apertus2509": "apertus",
    "cohere_command3": "cohere",
    "cohere_command4": "cohere",
    "deepseek_v32_exp": "deepseek_v31",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek_v32",
    "deepseekv4": "deepseek_v4",
    "deepseekv41": "deepseek_v41",
    "glm45": "glm",
    "glm47": "glm",
    "gpt-oss": "gpt_oss",
    "granite-20b-fc": "granite_20b_fc",
    "granite3": "granite",
    "granite4": "hermes",
    "hf": "response_template",
    "internlm": "internlm2",
    "interns1": "internlm2",
    "iquest_q1": "iquest",
    "jamba": "hunyuan_a13b",
    "kimi": "kimi_k2",
    "ling3": "glm",
    "llama3": "llama3_json",
    "llama4_json": "llama3_json",
    "llama4_pythonic": "pythonic",
    "minimax": "minimax_m1",
    "minimax-m1": "minimax_m1",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3",
    "muse_glimmer": "muse",
    "musespark1x": "muse",
    "nanbeige": "qwen_xml",
    "nemotron": "qwen_xml",
    "nemotron_v3": "qwen_xml",
    "openai": "gpt_oss",
    "phi4_mini_json": "phi4_mini",
    "poolside": "glm",
    "poolside_v1": "glm",
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3": "hermes",
    "qwen3.5": "qwen_xml",
    "qwen3_coder": "qwen_xml",
    "qwen3_json": "hermes",
    "qwen3_xml": "qwen_xml",
    "spark25": "glm",
    "step3p5": "qwen_xml",
    "step5": "qwen_xml",
    "trinity": "hermes",
}
"""Names of SGLang and vLLM, and other common ones, to our formats."""

_registered: dict[str, type[Any]] = {}


class _Registry(Mapping[str, "type[ToolParser]"]):
    """The parsers by name as one mapping; reading an entry loads its module."""

    def __getitem__(self, name: str) -> type[ToolParser]:
        if name in _registered:
            return _registered[name]
        module, _, cls = FORMATS[ALIASES.get(name, name)].partition(":")
        found: type[ToolParser] = getattr(importlib.import_module(f"strands_sglang.tool_parsers.{module}"), cls)
        return found

    def __setitem__(self, name: str, cls: type[ToolParser]) -> None:
        _registered[name] = cls

    def __iter__(self) -> Iterator[str]:
        return iter({**FORMATS, **ALIASES, **_registered})

    def __len__(self) -> int:
        return len({**FORMATS, **ALIASES, **_registered})

    def __contains__(self, name: object) -> bool:
        return name in _registered or name in FORMATS or name in ALIASES


TOOL_PARSER_REGISTRY = _Registry()
"""Every parser by every name, aliases included."""


def register_tool_parser(name: str) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that makes a parser available as `get_tool_parser(name)`."""

    def register(cls: type[T]) -> type[T]:
        _registered[name] = cls
        return cls

    return register


def get_tool_parser(name: str, **kwargs: Any) -> ToolParser:
    """Create a parser by name.

    Args:
        name: A format, an alias, a registered name, or "auto": then `tokenizer` must be given, and may be
            `chat_template`, and the format is told from them.
        **kwargs: Passed to the parser's constructor.

    Returns:
        A new parser.

    Raises:
        UnknownNameError: There is no such parser, or no name was given; the message names the nearest one.
        SGLangConfigError: The format of "auto" cannot be told; the message lists the candidates.
    """
    if name == "auto" and name not in _registered:
        name = _detected(kwargs)
    if not isinstance(name, str) or name not in TOOL_PARSER_REGISTRY:
        raise UnknownNameError("tool parser", name, TOOL_PARSER_REGISTRY)
    return TOOL_PARSER_REGISTRY[name](**kwargs)


def _detected(kwargs: dict[str, Any]) -> str:
    """Return the format of the tokenizer among `kwargs`, which is taken out."""
    from strands_sglang.tool_parsers.auto import detect_format  # it makes parsers itself

    tokenizer, template = kwargs.pop("tokenizer", None), kwargs.pop("chat_template", None)
    if tokenizer is None:
        raise SGLangConfigError('get_tool_parser("auto") needs tokenizer=, whose chat template tells the format')
    detected = detect_format(tokenizer, template)
    if detected == "response_template":
        kwargs["tokenizer"] = tokenizer
    return detected
