"""A chat template: messages and tools to text.

Owns the compiled template and what it is given. Invariant: for messages in a form that the template takes the text
equals that of transformers' `apply_chat_template(tokenize=False)` byte for byte, except that the clock stands still.
Never imports transformers, never changes the messages it is given.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import ChatTemplateError, ChatTemplateMissingError, SGLangConfigError

from .escapes import unescaped
from .forms import Forms

if TYPE_CHECKING:
    from .constant_parts import ConstantParts

KEPT: ContextVar[dict[int, str] | None] = ContextVar("KEPT", default=None)
"""The texts of parts that are kept for the rendering at hand, by number; see `constant_parts`."""
_MOST_TRIED = 100
_REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


class KeptTools(list[Any]):
    """Tools that nobody changes any more, with what templates have written of them.

    Attributes:
        parts: Texts of parts of a template by their numbers, for each template by its owner and name.
    """

    __slots__ = ("parts",)

    def __init__(self, tools: Iterable[Any]) -> None:
        """Take the tools; nothing is written yet."""
        super().__init__(tools)
        self.parts: dict[tuple[ChatTemplate, str], dict[int, str]] = {}


class ChatTemplate:
    """One or several named templates of a model, with one frozen set of arguments.

    Attributes:
        name: Name of the tokenizer, for messages.
        sources: The templates' own text.
    """

    def __init__(
        self,
        source: str | Mapping[str, str] | None,
        *,
        name: str,
        variables: Mapping[str, Any],
        now: datetime | None = None,
    ) -> None:
        """Compile the template.

        Args:
            source: The template, or several by name ("default", "tool_use"); None raises.
            name: Name of the tokenizer, for messages.
            variables: What every rendering passes: special tokens and template arguments.
            now: The time a template sees; None takes the present.
        """
        if not source:
            raise ChatTemplateMissingError(f"{name} has no chat template", model=name)
        self.name = name
        self._variables = dict(variables)
        self._now = now or datetime.now()
        sources = {"default": source} if isinstance(source, str) else dict(source)
        self.sources = tuple(sources.values())
        self._templates = {key: self._compile(text) for key, text in sources.items()}
        self._forms = Forms(self._render, name)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        generation_prompt: bool = True,
    ) -> str:
        """Return the text of a conversation.

        Args:
            messages: The messages, as plain data.
            tools: The tools, as plain data; None or empty for none.
            generation_prompt: Whether to ask for the header of an assistant turn at the end.
        """
        return self._render(self._forms.apply(messages), tools or (), generation_prompt=generation_prompt)

    def try_render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        generation_prompt: bool = False,
    ) -> str | None:
        """Return the text of a conversation, or None where the template refuses it."""
        try:
            return self.render(messages, tools, generation_prompt=generation_prompt)
        except ChatTemplateError:
            return None

    def first_refused(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], error: ChatTemplateError
    ) -> int | None:
        """Return the index of the message up to which a conversation is refused with the same words, or None."""
        for end in range(1, min(len(messages), _MOST_TRIED) + 1):
            try:
                self.render(messages[:end], tools)
            except ChatTemplateError as other:
                if str(other.__cause__) == str(error.__cause__):
                    return end - 1
        return None

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        generation_prompt: bool = True,
    ) -> str:
        name = self._choose(tools)
        token = KEPT.set(tools.parts.setdefault((self, name), {}) if isinstance(tools, KeptTools) else None)
        try:
            text = self._templates[name].render(
                messages=[_with_reasoning_aliases(message) for message in messages],
                tools=list(tools) if tools else None,
                documents=None,
                add_generation_prompt=generation_prompt,
                **{"strftime_now": self._now.strftime, **self._variables},
            )
        except Exception as error:  # a template is foreign code: whatever it raises is its refusal
            raise ChatTemplateError(
                f"the chat template of {self.name} cannot render {shape(messages)}: {error} ({type(error).__name__})",
                model=self.name,
            ) from error
        finally:
            KEPT.reset(token)
        return unescaped(str(text))

    def _choose(self, tools: Sequence[Mapping[str, Any]] | None) -> str:
        if tools and "tool_use" in self._templates:
            return "tool_use"
        if "default" in self._templates:
            return "default"
        raise ChatTemplateMissingError(
            f"{self.name} has the chat templates {', '.join(sorted(self._templates))}, but none named default",
            model=self.name,
            hint="pass the one to use as chat_template=",
        )

    def _compile(self, source: str) -> Any:
        try:
            return compile_template(source)
        except ImportError as error:
            raise ChatTemplateError(
                "chat templates need jinja2, which is not installed", model=self.name, hint="pip install jinja2"
            ) from error
        except Exception as error:
            raise ChatTemplateError(
                f"the chat template of {self.name} is not valid: {error}", model=self.name
            ) from error


def plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of template arguments; they must be plain data."""
    for name, value in arguments.items():
        if not _is_plain(value):
            raise SGLangConfigError(
                f"the chat template argument {name} is a {type(value).__name__}: templates take text, numbers, "
                "booleans, None, lists and mappings only"
            )
    return copy.deepcopy(dict(arguments))


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def shape(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the shape of a conversation in words, such as "[system, user, assistant with 2 calls, tool, tool]"."""
    return f"[{', '.join(_shape_of(message) for message in messages)}]"


def _shape_of(message: Mapping[str, Any]) -> str:
    extras = []
    if message.get("reasoning_content"):
        extras.append("reasoning")
    if calls := message.get("tool_calls"):
        extras.append("1 call" if len(calls) == 1 else f"{len(calls)} calls")
    if isinstance(message.get("content"), list | tuple):
        extras.append("blocks")
    return str(message.get("role")) + (f" with {' and '.join(extras)}" if extras else "")


def _with_reasoning_aliases(message: Mapping[str, Any]) -> dict[str, Any]:
    """Give reasoning under every name that templates read, as transformers does."""
    reasoning = next((message[key] for key in _REASONING_KEYS if message.get(key) is not None), None)
    return dict(message) if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


@functools.lru_cache(maxsize=64)
def compile_template(source: str) -> Any:
    """Return the compiled template; equal sources share one."""
    from .constant_parts import wrap_constant_parts

    environment, constant_parts = _environment()
    parsed = environment.parse(source)
    wrap_constant_parts(parsed, constant_parts)
    return environment.template_class.from_code(environment, environment.compile(parsed), environment.globals)


@functools.cache
def _environment() -> tuple[Any, ConstantParts]:
    """Return the sandbox that transformers renders chat templates in, and its extension that keeps constant parts."""
    import jinja2
    import jinja2.ext

    from .constant_parts import ConstantParts
    from .sandbox import Sandbox

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks what the model writes; here it only renders its body."""

        tags = {"generation"}  # noqa: RUF012 - jinja's own form

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            # A call block, because names set inside must stay inside.
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller: Any) -> str:
            return str(caller())

    class Namespace(jinja2.utils.Namespace):
        """A namespace without underscore names."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            self, given = args[0], dict(*args[1:], **kwargs)
            for name in given:
                _refuse_underscore(name)
            jinja2.utils.Namespace.__init__(self, given)

        def __setitem__(self, name: str, value: Any) -> None:
            _refuse_underscore(name)
            super().__setitem__(name, value)

    def _refuse_underscore(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}: the name begins with underscore")

    class Dict:
        """The `dict` of templates, of which only making one is allowed."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    def raise_exception(message: Any) -> None:
        raise jinja2.exceptions.TemplateError(message)

    environment = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols, ConstantParts]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["dict"] = Dict()
    environment.globals["namespace"] = Namespace
    parts = environment.extensions[ConstantParts.identifier]
    assert isinstance(parts, ConstantParts)
    return environment, parts


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Return JSON without the HTML escapes of jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
