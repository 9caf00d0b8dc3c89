"""What is told, what is answered, what is believed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from modelled import job

from slaqd.act import target as targets
from slaqd.act.target import Ack, Phase, Target, Track
from slaqd.errors import TagError
from slaqd.types import Job, Lever, Sizes, State, Tag

SIZES = Sizes(min=1, max=8)
OPEN = Track(phase=Phase.OPEN, seq=7, units=2, acked=4, most=4)


def ack(seq: int = 7, units: int = 2, **other: Any) -> Ack:
    return Ack(v=1, seq=seq, state="applied", units=units, **other)


def following(**said: Any) -> Job:
    row = msgspec.structs.replace(job(1, held=3, lever=Lever.FILE), sizes=SIZES, target=None, cwd="/runs/a")
    return msgspec.structs.replace(row, tag=Tag(lever=Lever.FILE, **{"dir": "ctl", **said}))


# the files


def test_a_target_has_the_keys_and_the_order_of_the_contract() -> None:
    written = targets.file(OPEN, following(), 1772424000.0, "gain 0.031/min")
    assert written == (
        b'{"v":1,"job":"1","seq":7,"units":2,"min":1,"max":8,"issued":1772424000.0,'
        b'"deadline":1772424120.0,"reason":"gain 0.031/min"}\n'
    )
    found = targets.read_target(written)
    assert found is not None
    assert (found.seq, found.units) == (7, 2)


def test_a_target_never_grows_past_what_a_job_reads() -> None:
    written = targets.file(OPEN, following(), 1.0, "\U0001f40c" * 10_000 + "\n\x1b")
    assert len(written) < targets.MOST_BYTES
    assert b"\x1b" not in written


def test_the_answer_of_the_contract_is_understood() -> None:
    said = (
        b'{"v":1,"seq":7,"state":"applied","units":4,"step":1290,"time":1772424003.1,'
        b'"checkpoint_age_s":42,"note":""}'
    )
    assert targets.read_ack(said) == ack(units=4, step=1290, time=1772424003.1, checkpoint_age_s=42)


GOOD = {"v": 1, "seq": 7, "state": "applied", "units": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 2}, {"v": "1"}, {"seq": "7"}, {"seq": 7.5}, {"seq": -1}, {"seq": 2**53}, {"seq": True},
        {"seq": None}, {"units": "2"}, {"units": 2.5}, {"units": True}, {"units": None}, {"units": 10**30},
        {"units": -1}, {"state": "done"}, {"state": None}, {"step": "x"}, {"time": "now"}, {"note": 3},
    ],
)  # fmt: skip
def test_an_answer_with_a_wrong_value_says_which(wrong: dict[str, object]) -> None:
    why = targets.read_ack(json.dumps({**GOOD, **wrong}).encode())
    assert isinstance(why, str)
    assert why.startswith("ack.json can't be understood: ")


@pytest.mark.parametrize(
    "said",
    [
        b"", b"\0" * 100, b"{", b"[]", b"null", b"7", b'"x"', b"[" * 4000, b'{"v":1,"a":' + b"[" * 3000,
        b'{"v":1}', b"\xff\xfe", json.dumps(GOOD)[:-4].encode(), b'{"v":1,"seq":NaN}', b"\x1b[2J" * 10,
    ],
)  # fmt: skip
def test_garbage_is_no_answer_and_is_told_in_printable_words(said: bytes) -> None:
    why = targets.read_ack(said)
    assert isinstance(why, str)
    assert why.isprintable()


def test_an_answer_of_a_megabyte_is_not_read() -> None:
    said = json.dumps({**GOOD, "note": "x" * 1_000_000}).encode()
    assert targets.read_ack(said) == "ack.json is longer than 4096 bytes"


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 4000, b" " * 5000, b'{"v":2}'])
def test_a_target_that_slaqd_didnt_write_is_none(data: bytes) -> None:
    assert targets.read_target(data) is None


def test_keys_of_later_versions_are_passed_over() -> None:
    assert targets.read_ack(json.dumps({**GOOD, "more": [1]}).encode()) == ack()


# the place


@pytest.mark.parametrize(
    ("said", "cwd", "folder"),
    [
        ("ctl", "/runs/a", "/runs/a/ctl"),
        ("ctl/{jobid}-%u", "/runs/a", "/runs/a/ctl/1-ada"),
        ("/scratch/x/", "/runs/a", "/scratch/x"),
        ("c*[t]?", "/runs/[b]*", "/runs/[b]*/c*[t]?"),
    ],
)
def test_a_directory_is_expanded_as_a_log_is_and_never_a_glob(said: str, cwd: str, folder: str) -> None:
    row = msgspec.structs.replace(following(dir=said), cwd=cwd)
    assert targets.place(row) == (1000, cwd, folder)


@pytest.mark.parametrize(
    ("said", "cwd", "why"),
    [
        (None, "/runs", "lever=file needs the directory of its target"),
        ("ctl", "", "dir=ctl is relative"),
        ("{what}", "/runs", "dir={what}: {what} is not known"),
    ],
)
def test_a_directory_that_cant_be_told_is_refused_in_words_for_the_user(
    said: str | None, cwd: str, why: str
) -> None:
    with pytest.raises(TagError, match=why.replace("{", r"\{")):
        targets.place(msgspec.structs.replace(following(dir=said), cwd=cwd))


# the steps


def test_a_directory_of_endless_words_is_refused_in_few() -> None:
    row = msgspec.structs.replace(following(dir="/" + "%x" * 16_000), name="[" * 32_000)
    with pytest.raises(TagError, match=r"tag: dir=.* more than 4096 characters") as refused:
        targets.place(row)
    assert len(str(refused.value)) < 400


def test_each_target_has_a_larger_number_than_any_that_stands_anywhere() -> None:
    assert targets.tell(Track(), 0, 3).seq == 1
    assert targets.tell(OPEN, 0, 3).seq == 8
    assert targets.tell(OPEN, 0, 3, 4, 31).seq == 32


def test_a_number_that_leaves_no_room_above_it_is_not_followed() -> None:
    assert targets.tell(OPEN, 0, 3, 2**53 - 1).seq == 8


def test_until_the_answer_the_larger_of_old_and_new_is_held() -> None:
    down = targets.tell(Track(phase=Phase.SETTLED, seq=6, units=4, acked=4), 4, 2)
    up = targets.tell(Track(phase=Phase.SETTLED, seq=6, units=4, acked=4), 4, 6)
    assert [targets.held(each, 0) for each in (down, up)] == [4, 6]
    assert [targets.held(targets.hear(each, ack(7, each.units), SIZES)[0], 0) for each in (down, up)] == [
        2,
        6,
    ]


def test_all_that_was_told_without_an_answer_stays_counted() -> None:
    track = Track(phase=Phase.SETTLED, seq=1, units=2, acked=2)
    for units in (7, 1, 3):
        track = targets.miss(targets.tell(track, 0, units))
    assert targets.held(track, 0) == 7
    assert targets.held(targets.hear(track, ack(4, 3), SIZES)[0], 0) == 3


def test_before_the_first_answer_what_is_seen_counts() -> None:
    track = targets.tell(Track(), 2, 3)
    assert [targets.held(track, seen) for seen in (0, 5)] == [3, 5]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (ack(8), "ack.json answers target 8, and 7 is the last that was written"),
        (ack(units=0), "ack.json says 0 units, outside the job's bounds, 1 to 8"),
        (ack(units=9), "ack.json says 9 units, outside the job's bounds, 1 to 8"),
        (ack(units=-3), "ack.json says -3 units, outside the job's bounds, 1 to 8"),
        (ack(units=5), "ack.json says 5 units, more than the 4 that the job can have had"),
        ("ack.json can't be understood: x", "ack.json can't be understood: x"),
    ],
)
def test_an_answer_that_cant_be_is_ignored_with_the_reason(said: Ack | str, why: str) -> None:
    assert targets.hear(OPEN, said, SIZES) == (OPEN, why)


@pytest.mark.parametrize("said", [None, ack(6), ack(0), ack(3, 999)])
def test_no_answer_or_an_old_one_is_waited_through(said: Ack | None) -> None:
    assert targets.hear(OPEN, said, SIZES) == (OPEN, "")


def test_an_answer_late_or_in_time_ends_the_count_of_misses() -> None:
    late = targets.miss(targets.miss(OPEN))
    assert late.misses == 2
    heard, why = targets.hear(late, ack(), SIZES)
    assert (heard.phase, heard.misses, heard.most, why) == (Phase.SETTLED, 0, 0, "")


def test_what_a_job_began_with_is_kept_and_frees_nothing() -> None:
    track, why = targets.hear(Track(), ack(0, 5), SIZES)
    assert (track.before, track.acked, track.phase, why) == (5, None, Phase.FREE, "")


@pytest.mark.parametrize(("known", "seq"), [(Track(), 7), (Track(seq=3, units=8, acked=8), 7), (OPEN, 7)])
def test_a_lost_journal_is_made_up_for_by_what_stands_in_the_file(known: Track, seq: int) -> None:
    found = Target(v=1, job="1", seq=7, units=5, min=1, max=8, issued=0.0, deadline=0.0, reason="")
    track = targets.recall(known, found, following())
    assert track.seq == seq
    assert (track is known) == (known is OPEN)
    assert track.phase is Phase.OPEN
    assert targets.held(track, 0) >= (4 if known is OPEN else 5)


def test_anothers_target_or_one_out_of_bounds_is_not_taken_up() -> None:
    found = Target(v=1, job="2", seq=7, units=5, min=1, max=8, issued=0.0, deadline=0.0, reason="")
    assert targets.recall(Track(), found, following()) == Track()
    strange = msgspec.structs.replace(found, job="1", units=100)
    assert targets.recall(Track(), strange, following()) == Track(seq=7)


def test_in_a_new_directory_nothing_was_told_yet_but_what_was_may_be_held() -> None:
    track = msgspec.structs.replace(OPEN, folder="/old")
    assert targets.moved(track, "/old", 0) is track
    fresh = targets.moved(track, "/new", 0)
    assert (fresh.phase, fresh.seq, targets.held(fresh, 0)) == (Phase.FREE, 7, 4)


# the rows


def test_a_waiting_answer_is_a_gap_with_the_old_units_held_and_the_new_as_target() -> None:
    shown = targets.row(following(), OPEN)
    assert (shown.held, shown.target, shown.gap) == (4, 2, "waits until the job answers target 7, 2 units")


def test_an_answer_not_believed_stands_beside_what_is_waited_for() -> None:
    shown = targets.row(following(), OPEN, "ack.json says 9 units")
    assert shown.gap == "waits until the job answers target 7, 2 units; ack.json says 9 units"


def test_after_one_missed_deadline_the_job_is_told_anew_and_after_three_it_is_only_advised() -> None:
    track = OPEN
    for misses in (1, 2, 3):
        track = targets.miss(track)
        shown = targets.row(following(), track)
        assert (shown.held, shown.target) == (4, None)
        assert (shown.gap is None) == (misses < 3)
    words = "it has answered none of its last 3 targets; it must read target.json"
    assert (shown.cannot_grow or "").startswith(words)
    assert shown.cannot_grow == shown.cannot_shrink == shown.gap


def test_a_job_that_took_fewer_or_gave_up_less_is_left_so_for_a_while() -> None:
    fewer = Track(phase=Phase.SETTLED, seq=7, units=6, acked=4)
    more = Track(phase=Phase.SETTLED, seq=7, units=2, acked=3, note="a rank hangs")
    shown = targets.row(following(), fewer)
    assert (shown.held, shown.target, shown.wants, shown.cannot_shrink) == (4, 4, 4, None)
    shown = targets.row(following(), more)
    assert (shown.held, shown.target) == (3, 3)
    assert shown.cannot_shrink == "asked for 2 units it answered 3: a rank hangs"
    for track in (fewer, more):
        later = targets.row(following(), track, fresh=False)
        assert (later.wants, later.cannot_shrink) == (None, None)


@pytest.mark.parametrize("state", [State.WAITING, State.ENDED])
def test_a_job_that_doesnt_run_is_held_to_nothing(state: State) -> None:
    row = msgspec.structs.replace(following(), state=state, held=0)
    assert targets.row(row, OPEN) == row


def test_a_job_given_back_is_shown_as_its_manager_sees_it() -> None:
    back = targets.restore(Track(phase=Phase.SETTLED, seq=7, units=2, acked=2))
    shown = targets.row(following(), back)
    assert (shown.held, shown.target, shown.gap) == (3, None, None)


def test_while_a_job_given_back_may_still_follow_its_last_target_that_is_counted() -> None:
    shown = targets.row(following(), targets.restore(OPEN))
    assert (shown.held, shown.target, shown.gap) == (4, None, targets.waits(OPEN))


def test_a_gap_of_the_managers_own_comes_first() -> None:
    row = msgspec.structs.replace(following(), gap="not whole")
    assert targets.row(row, OPEN).gap == "not whole"
    assert targets.row(row, targets.restore(OPEN)).gap == "not whole"


@pytest.mark.parametrize(("grace", "seconds"), [(None, 120.0), (600.0, 600.0), (0.0, 1.0), (1e9, 86_400.0)])
def test_the_tags_grace_is_how_long_an_answer_may_take(grace: float | None, seconds: float) -> None:
    assert targets.patience(following(grace=grace)) == seconds
