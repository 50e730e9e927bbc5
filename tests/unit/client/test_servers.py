"""Where a request goes, and under which id."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.client.servers import RID_LENGTH, Server, Servers, conversation_key, new_rid
from strands_sglang.errors import SGLangConfigError

from .fleet import Clock

URLS = ["http://a:1", "http://b:1", "http://c:1"]


@given(st.one_of(st.none(), st.text(max_size=200)))
def test_every_request_id_has_the_same_length(conversation: str | None) -> None:
    rid = new_rid(conversation_key(conversation))

    assert len(rid) == RID_LENGTH
    assert rid.isascii()


def test_no_two_attempts_share_an_id() -> None:
    key = conversation_key("c")

    assert len({new_rid(key) for _ in range(1000)}) == 1000


def test_request_ids_do_not_follow_a_seed() -> None:
    random.seed(1)
    first = new_rid(conversation_key(None))
    random.seed(1)

    assert first != new_rid(conversation_key(None))


def test_a_router_finds_the_conversation_in_the_id() -> None:
    key = conversation_key("anything")
    stem, _, attempt = new_rid(key).rpartition("_r")

    assert key == stem
    assert attempt.isdigit()


def test_a_conversation_has_one_key_and_hexadecimal_keys_are_kept() -> None:
    assert conversation_key("c") == conversation_key("c") != conversation_key("d")
    assert conversation_key("0123456789abcdef" * 2) == "0123456789abcdef" * 2
    assert conversation_key(None) != conversation_key(None)


def test_one_conversation_stays_on_one_server_and_many_spread() -> None:
    servers = Servers(URLS)

    chosen = {key: servers.choose(key) for key in map(conversation_key, map(str, range(60)))}
    assert all(server is servers.choose(key) for key, server in chosen.items())
    assert set(servers.all) == set(chosen.values())


def test_a_server_that_is_gone_moves_its_own_conversations_only_and_gets_them_back() -> None:
    clock = Clock()
    servers = Servers(URLS, clock=clock)
    keys = [conversation_key(str(number)) for number in range(60)]
    before = {key: servers.choose(key) for key in keys}
    gone = before[keys[0]]

    gone.gave_no_answer(clock.now)
    during = {key: servers.choose(key) for key in keys}
    assert all(during[key] is before[key] for key in keys if before[key] is not gone)
    assert gone not in during.values()
    clock.now += 60
    assert before == {key: servers.choose(key) for key in keys}


def test_an_answer_ends_the_outage_at_once() -> None:
    servers = Servers(URLS)
    server = servers.choose("k")
    server.gave_no_answer(servers.clock())
    server.answered()

    assert server is servers.choose("k")
    assert server.contacted
    assert [server.gave_no_answer(servers.clock()) for _ in range(4)] == [False, True, False, False]


def test_when_all_are_gone_the_conversation_s_own_server_is_asked() -> None:
    servers = Servers(URLS)
    own = servers.choose("k")
    for server in servers.all:
        server.gave_no_answer(servers.clock())

    assert own is servers.choose("k")
    assert own is not servers.choose("k", {own: 1})


def test_addresses_are_taken_once_and_without_their_slash() -> None:
    assert [server.base_url for server in Servers(["http://a:1/prefix/", "http://a:1/prefix"]).all] == [
        "http://a:1/prefix"
    ]
    assert Server("http://a:1/prefix").url("/generate") == "http://a:1/prefix/generate"


@pytest.mark.parametrize("url", ["localhost:30000", "a", "", "ftp://a", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SGLangConfigError, match="base_url"):
        Server(url)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="empty"):
        Servers([])
