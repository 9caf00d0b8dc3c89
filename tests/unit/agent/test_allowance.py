"""Which sources travel with a look, however much one user registers."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slaqd.agent.allowance import CROWDED, MOST_SAID, UNSAID, unsaid
from slaqd.agent.client import Agent
from slaqd.agent.protocol import MOST, Look, Looked, Reading, Request, Source, pack, receive, send
from slaqd.types import Curve, Health, Tag

BOB, EVE = 20_001, 20_002


def source(job: int, uid: int = BOB, root: str = "/home/someone/projects/resnet/run-17") -> Source:
    tag = Tag(log="runs/{jobid}/metrics.csv", key="val_loss", min=1, max=8)
    return Source(f"local:{job}:987654321", uid, root, f"/home/someone/runs/{job}/metrics.csv", tag)


def size(*sources: Source) -> int:
    return sum(len(msgspec.msgpack.encode(one)) for one in sources)


def test_five_thousand_usual_jobs_of_one_user_all_travel() -> None:
    usual = [source(1_000_000 + at) for at in range(5_000)]
    assert unsaid(usual) == {}
    assert size(*usual) * 2 < MOST_SAID


def test_the_sources_of_a_user_with_endless_names_leave_anothers_alone() -> None:
    """One source of 252 KB seventy times is more than a frame holds: the agent would hang up on all."""
    hers = [source(at, EVE, "/" + "[" * 252_000) for at in range(70)]
    his = [source(1_000 + at) for at in range(1_000)]
    refused = unsaid([*hers, *his])
    assert set(refused.values()) == {CROWDED}
    assert refused.keys() < {one.job for one in hers}
    said = tuple(one for one in (*hers, *his) if one.job not in refused)
    assert len(msgspec.msgpack.encode(Look(1.0, said))) < MOST // 2


def test_a_name_that_is_not_utf8_costs_its_own_job_only() -> None:
    assert unsaid([source(1), source(2, root="/\udcff")]) == {source(2).job: UNSAID}


def test_no_sources_are_none_too_many() -> None:
    assert unsaid([]) == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 400)), max_size=30), st.integers(0, 6_000))
def test_what_travels_fits_and_nobody_is_refused_an_even_share(
    drawn: list[tuple[int, int]], most: int
) -> None:
    sources = [source(at, uid, "/" * length) for at, (uid, length) in enumerate(drawn)]
    refused = unsaid(sources, most)
    assert size(*(one for one in sources if one.job not in refused)) <= most
    users = {one.uid for one in sources}
    for uid in users:
        mine = [one for one in sources if one.uid == uid]
        if size(*mine) <= most // len(users):
            assert not refused.keys() & {one.job for one in mine}


def test_a_job_whose_source_does_not_travel_is_unreadable_and_keeps_its_points() -> None:
    here, there = socket.socketpair()
    asked: list[Look] = []

    def answer() -> None:
        for _ in range(2):
            asked.append(receive(there, Request))
            send(there, Looked(tuple(Reading(one.job, pack(CURVE)) for one in asked[-1].sources)))

    thread = threading.Thread(target=answer)
    thread.start()
    with there, closing(Agent("/nowhere")) as agent:
        agent._sock = here
        assert agent.look([source(1), source(2, EVE)], 1.0)[source(2).job].health is Health.OK
        curves = agent.look([source(1), source(2, EVE, "/" * MOST)], 2.0)
        thread.join()
    assert [len(look.sources) for look in asked] == [2, 1]
    assert curves[source(1).job].health is Health.OK
    seen = curves[source(2).job]
    assert (seen.health, seen.note, list(seen.losses)) == (Health.UNREADABLE, CROWDED, [2.0, 1.0])


CURVE = Curve(steps=[1.0, 2.0], losses=[2.0, 1.0], seconds=[1.0, 2.0], count=2, first=2.0, lowest=1.0,
              largest_change=1.0, health=Health.OK)  # fmt: skip
