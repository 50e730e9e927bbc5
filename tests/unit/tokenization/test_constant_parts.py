"""Parts of a template whose text is kept: what is written is what the template itself writes, in every order."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_sglang.errors import ChatTemplateError
from strands_sglang.tokenization.template import ChatTemplate, KeptTools, _environment
from tests.real_tokenizers import FAST, chat_template, chat_template_names, real_tokenizer

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks up a {name}.",
            "parameters": {
                "type": "object",
                "properties": {
                    "q": {"type": "string", "description": "What."},
                    "n": {"type": ["integer", "null"], "enum": [1, 2], "default": 1},
                },
                "required": ["q"],
            },
        },
    }
    for name in ("book", "map", "tide")
]
CALL = {"id": "call00001", "type": "function", "function": {"name": "map", "arguments": {"q": "x"}}}
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi."}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "tools"}],
    [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call00001", "name": "map", "content": "1"},
    ],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "Hi."}],
    [{"role": "user", "content": "Hi."}],
]
NOW = datetime(2026, 1, 2)
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": None}


def written(template: ChatTemplate, messages: list[Any], tools: Any, *, generation_prompt: bool) -> str | None:
    """Return what a template writes, None where it refuses."""
    try:
        text = template._render(messages, tools, generation_prompt=generation_prompt)
        return re.sub(" at 0x[0-9a-f]+", "", text)
    except ChatTemplateError:
        return None


def faults(source: str, orders: list[tuple[int, bool]]) -> tuple[list[Any], int]:
    """Return where a template with kept parts writes something else than without, and how many texts are kept."""
    template, plain = (ChatTemplate(source, name="m", variables=VARIABLES, now=NOW) for _ in range(2))
    plain._templates = {"default": _environment()[0].from_string(source)}
    found: list[Any] = []
    kept = 0
    for tools in (TOOLS, TOOLS[:1], []):
        same = KeptTools(tools)
        for index, prompt in orders:
            text = written(template, CONVERSATIONS[index], same, generation_prompt=prompt)
            wanted = written(plain, CONVERSATIONS[index], tools, generation_prompt=prompt)
            if text != wanted:
                found.append((len(tools), index, prompt, text, wanted))
        kept += sum(map(len, same.parts.values()))
    return found, kept


ALL = [(index, prompt) for prompt in (True, False) for index in range(len(CONVERSATIONS))]


@pytest.mark.parametrize("name", FAST)
def test_models_write_what_they_write_without(name: str) -> None:
    sources = real_tokenizer(name).chat_template
    for source in sources.values() if isinstance(sources, dict) else [sources]:
        assert faults(source, ALL)[0] == []


def test_templates_write_what_they_write_without() -> None:
    # All of them, with the tokenizers, are gone through by `python -m tests.templates`.
    found = {name: wrong for name in chat_template_names()[::16] if (wrong := faults(chat_template(name), ALL)[0])}

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "{% for t in tools %}{{ t | tojson }}{% endfor %}",
        "{% if tools %}{% for t in tools %}{{ t.function.name }}{% if loop.last %}.{% endif %}{% endfor %}{% endif %}",
        "{% macro m(list) %}{% for t in list %}{{ t }}{% endfor %}{% endmacro %}{{ m(tools) }}{{ messages[0].role }}",
        "{% macro m(t, n=1) %}{{ t }}{% if n %}{{ m(t, n - 1) }}{% endif %}{% endmacro %}{{ m(tools, 2) }}",
        "{% set x = tools | map(attribute='function') | list %}{% for t in x %}{{ t }}{% endfor %}",
        "{% if not tools is defined %}{% set tools = none %}{% endif %}{% for t in tools or [] %}{{ t }}{% endfor %}",
        "{% for m in messages %}{% if loop.first %}{% for t in tools %}{{ t }}{% endfor %}{% endif %}{% endfor %}",
        "{% if tools %}{% macro j(t) %}{% set ns = namespace(x='') %}{% for k, v in t.items() %}"
        "{% set ns.x = ns.x ~ k %}{% endfor %}{{ ns.x }}{% endmacro %}"
        "{% for t in tools %}{{ j(t.function) }}{% endfor %}{% endif %}",
        "{% for t in tools %}{% for k in t %}{% if k == 'type' %}{% continue %}{% endif %}{{ k }}{% endfor %}"
        "{% endfor %}",
        "{{ tools | tojson(indent=2) if tools else '' }}",
    ],
)
def test_what_depends_on_the_tools_alone_is_kept(source: str) -> None:
    found, kept = faults(source, ALL)

    assert found == []
    assert kept > 0


@pytest.mark.parametrize(
    "source",
    [
        "{% for t in tools %}{{ t }}{{ messages | length }}{% endfor %}",
        "{% for t in tools %}{{ add_generation_prompt }}{% endfor %}",
        "{% set n = messages | length %}{% for t in tools %}{{ n }}{% endfor %}",
        "{% if messages | length > 1 %}{% set n = 1 %}{% else %}{% set n = 2 %}{% endif %}{{ (tools ~ n) | tojson }}",
        "{% set ns = namespace(n=0) %}{% for t in tools %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endfor %}{{ ns.n }}",
        "{% for m in messages %}{% for t in tools %}{{ m.role }}{{ t.type }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for t in tools %}{{ loop.index }}{% endfor %}{{ (tools ~ loop.index) | tojson }}"
        "{% endfor %}",
        "{% for m in messages %}{% set x = m.role %}{{ (tools ~ x) | tojson }}{% endfor %}",
        "{% macro m(x) %}{{ x }}{{ messages | length }}{% endmacro %}{{ m(tools) }}",
        "{% macro m(x) %}{% for t in tools %}{{ x }}{% endfor %}{% endmacro %}{{ m(messages[0].role) }}",
        "{% macro m(x) %}{% for t in x %}{{ t }}{% endfor %}{% endmacro %}{{ m(tools) }}{{ m(messages) }}",
        "{% macro m() %}{{ caller() }}{% for t in tools %}{{ t }}{% endfor %}{% endmacro %}"
        "{% call m() %}{{ messages | length }}{% endcall %}",
        # Gone through once: whoever comes second finds nothing, also where the first was kept.
        "{% set x = tools | map(attribute='type') %}{% for t in x %}{{ t }}{% endfor %}"
        "{% for t in x %}{{ t }}{{ messages | length }}{% endfor %}",
        # Called before and after something it reads is set.
        "{% macro m() %}{% for t in tools %}{{ x }}{% endfor %}{% endmacro %}{{ m() }}{% set x = 5 %}{{ m() }}",
        "{% macro m() %}{% for t in tools %}{{ x }}{{ t }}{% endfor %}{{ messages }}{% endmacro %}{{ m() }}"
        "{% set x = 5 %}{{ m() }}",
        "{% macro m() %}{{ (tools ~ (n is defined)) | tojson }}{{ messages }}{% endmacro %}{{ m() }}"
        "{% macro n() %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ tools | tojson }}{{ x }}{% endmacro %}{% macro n() %}{{ messages | length }}{{ m() }}"
        "{% endmacro %}{{ n() }}{% set x = 5 %}{{ n() }}",
        "{% if messages | length > 1 %}{% macro m() %}a{% endmacro %}{% endif %}"
        "{% for t in tools %}{{ 'y' if m is defined else 'n' }}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for t in tools %}{% set ns.n = ns.n + 1 %}"
        "{% if false %}{% set ns = 1 %}{% endif %}{{ t }}{% endfor %}{{ ns.n }}",
        "{% macro m() %}a{% endmacro %}{% if messages | length > 1 %}{% macro m() %}b{% endmacro %}{% endif %}"
        "{% for t in tools %}{{ m() }}{% endfor %}",
        "{% set x %}{{ messages | length }}{% endset %}{% for t in tools %}{{ x }}{% endfor %}",
        "{% if messages | length > 1 %}{% set x %}a{% endset %}{% endif %}{% for t in tools %}{{ x }}{% endfor %}",
        "{% with x = messages | length %}{% for t in tools %}{{ x }}{% endfor %}{% endwith %}",
        "{% for t in tools recursive %}{{ t.type }}{{ loop(t.x or []) }}{{ messages }}{% endfor %}",
        "{% set tools = messages %}{% for t in tools %}{{ t }}{% endfor %}",
        "{% for tools in [messages] %}{% for t in tools %}{{ t }}{% endfor %}{% endfor %}",
        "{% macro m(tools) %}{% for t in tools %}{{ t }}{% endfor %}{% endmacro %}{{ m(messages) }}{{ m([1]) }}",
        # Read in a scope before it is set there.
        "{{ tools | tojson }}{% set tools = none %}",
        "{% for t in tools %}{{ t.type }}{% endfor %}{% set tools = none %}",
        "{{ tools | tojson }}{% for m in messages %}{% for x in [1] %}{{ tools }}{% endfor %}{% set tools = 1 %}"
        "{% endfor %}",
        "{{ (tools ~ bos_token) | tojson }}{% set x | replace(bos_token, 'y') %}<s>{% endset %}{{ x }}",
        # The loop that a filter sees is the one around.
        "{% for m in messages %}{% for t in tools if loop.index > 1 %}{{ t.type }}{% endfor %}{% endfor %}",
        # Objects that change, made by way of others.
        "{% set d = {'c': cycler} %}{% set x = d.c(1, 2) %}{% for t in tools %}{{ x.next() }}{% endfor %}"
        "{{ x.next() }}",
        "{% set d = {'j': joiner} %}{% set x = {'j': d.j('|')} %}{% for t in tools %}{{ x.j() }}{% endfor %}"
        "{{ x.j() }}",
        "{% set d = {'n': namespace} %}{% set o = d.n(x=0) %}{% for t in tools %}{% set ns = o %}"
        "{% set ns.x = ns.x + 1 %}{% endfor %}{{ o.x }}",
        # An input, until a namespace takes its name.
        "{% for t in tools %}{{ messages | length }}{% set messages = namespace(x=1) %}{% set messages.x = 2 %}"
        "{% endfor %}",
        "{% macro m() %}{% for t in tools %}{{ varargs }}{% set varargs = namespace(x=1) %}{% set varargs.x = 2 %}"
        "{% endfor %}{% endmacro %}{{ m(messages) }}{{ m(1) }}",
        # Gone through once, in a list.
        "{% set x = [tools | map('string')] | list %}{% for t in x[0] %}{{ t }}{% endfor %}"
        "{% for t in x[0] %}{{ t }}{{ messages | length }}{% endfor %}",
        "{% set x = tools | map('items') | list %}{% for t in x %}{{ t | list }}{% endfor %}"
        "{% for t in x %}{{ t | list }}{{ messages | length }}{% endfor %}",
        # Called later than written, by way of a namespace.
        "{% set ns = namespace(c=0) %}{% macro m() %}{% set ns.c = caller %}{% endmacro %}"
        "{% call m() %}{% for t in tools %}{{ x }}{% endfor %}{% endcall %}{{ ns.c() }}{% set x = 5 %}{{ ns.c() }}",
        "{% set ns = namespace(l=0) %}{% for a in [1] recursive %}{% set ns.l = loop %}{% for t in tools %}{{ x }}"
        "{% endfor %}{% endfor %}{% set x = 5 %}{{ ns.l([1]) }}",
        # Escaped by who calls.
        "{% macro m() %}{{ ([tools | length | string | escape, '<'] | join) ~ (1 | tojson) }}{% endmacro %}"
        "{{ m() }}{% autoescape true %}{{ m() }}{% endautoescape %}",
        # A missing filter matters where it is reached.
        "{% if messages | length > 2 %}{{ tools | missing | tojson }}{% endif %}",
    ],
)
def test_what_may_differ_is_written_anew(source: str) -> None:
    assert faults(source, ALL)[0] == []


@pytest.mark.parametrize(
    "shown",
    [
        "range(100) | random",
        "[range(9)] | map('random') | list",
        "[range(9)] | map('ran' ~ 'dom') | list",
        "[[range(9)]] | map('map', 'ran' ~ 'dom') | map('list') | list",
        "lipsum(n=1)",
        "{'l': lipsum}.l(n=1)",
    ],
)
def test_what_chance_decides_is_not_kept(shown: str) -> None:
    assert faults(f"{{% for t in tools %}}{{{{ {shown} }}}}{{% endfor %}}", ALL)[1] == 0


def test_a_refusal_is_not_kept() -> None:
    source = "{% for t in tools %}{{ raise_exception('no') }}{% endfor %}"
    template, tools = ChatTemplate(source, name="m", variables={}), KeptTools(TOOLS)

    for _ in range(2):
        assert template.try_render(CONVERSATIONS[0], tools) is None
    assert not any(tools.parts.values())


# --- templates made at random --------------------------------------------------------------------------------

NAMES = ("a", "b", "tools", "messages", "ns", "m", "t")
NAME = st.sampled_from(NAMES)
VALUE = st.one_of(
    NAME,
    st.sampled_from(
        [
            "1",
            "'x'",
            "messages | length",
            "tools | length",
            "messages[0].role",
            "loop.index",
            "ns.x",
            "m(a)",
            "m(tools)",
        ]
    ),
    st.builds("({} ~ {})".format, NAME, NAME),
    st.builds("({} or {})".format, NAME, NAME),
    st.builds("({} is defined)".format, NAME),
    st.builds("({} | tojson)".format, st.sampled_from(["tools", "a", "b"])),
    st.builds("({} | map('string'))".format, st.sampled_from(["tools", "a"])),
    st.builds("({} | map('string') | list)".format, st.sampled_from(["tools", "a"])),
)
SIMPLE = st.one_of(
    st.builds("{{{{ {} }}}}".format, VALUE),
    st.builds("{{% set {} = {} %}}".format, NAME, VALUE),
    st.builds("{{% set ns.x = {} %}}".format, VALUE),
    st.just("{% set ns = namespace(x=0) %}"),
    st.sampled_from(["{{ tools | tojson }}", "{% for t in tools %}{{ t.type }}{% endfor %}", "{{ m(tools) }}"]),
)


LISTS = st.sampled_from(["tools", "tools", "tools", "messages", "a", "(a or tools)"])
LEAVE = st.sampled_from(["", "", "{% continue %}", "{% break %}", "{% if t %}{% continue %}{% endif %}"])


def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return statements with others inside."""
    body = st.lists(inner, min_size=1, max_size=3).map("".join)
    return st.one_of(
        st.builds(
            "{{% for {} in {} %}}{}{{% endfor %}}".format, NAME, st.sampled_from(["tools", "messages", "a"]), body
        ),
        st.builds("{{% if {} %}}{}{{% else %}}{}{{% endif %}}".format, VALUE, body, body),
        st.builds("{{% macro m({}) %}}{}{{% endmacro %}}".format, NAME, body),
        st.builds("{{% set {} %}}{}{{% endset %}}".format, NAME, body),
        st.builds("{{% with {} = {} %}}{}{{% endwith %}}".format, NAME, VALUE, body),
        st.builds("{{% call m({}) %}}{}{{% endcall %}}".format, VALUE, body),
    )


TEMPLATES = st.lists(st.recursive(SIMPLE, around, max_leaves=6), min_size=1, max_size=6).map("".join)


@settings(max_examples=60)
@given(source=TEMPLATES, orders=st.lists(st.sampled_from(ALL), min_size=2, max_size=5))
def test_whatever_is_written_in_a_template_it_writes_the_same(source: str, orders: list[tuple[int, bool]]) -> None:
    try:
        _environment()[0].from_string(source)
    except (jinja2.TemplateSyntaxError, SyntaxError):
        return

    assert faults(source, orders)[0] == []
