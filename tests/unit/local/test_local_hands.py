"""What the hands in the agent do for slaqd, and what they do for nobody."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slaqd_local import groups, guard, requests
from slaqd_local.guard import Guard
from slaqd_local.hierarchy import CgroupMount, Hierarchy
from slaqd_local.requests import Answer, Clear, Gather, GiveBack, Hold, Lift, WhyNot
from standing_hands import LEAST_UID, OURS, hands, hold, limit, named, origins, where
from standing_kernel import ALICE, ALICES, BOB, BOBS, HOME, ROOT, ROOTS, SYSTEM, SYSTEMS, USERS, Kernel


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path, request.param)
    with kernel.stands():
        yield kernel


def test_a_users_processes_are_held_and_given_back_where_they_came_from(kernel: Kernel) -> None:
    hold(kernel, ALICES)
    assert [where(kernel, pid) for pid in ALICES] == [OURS, OURS]
    first = next(iter(kernel.mounts.values())) / "slaqd/job-101-7"
    quota = "cpu.max" if "" in kernel.mounts else "cpu.cfs_quota_us"
    assert (first / quota).read_text() in {"25000", "25000 50000"}
    assert first.stat().st_mode & 0o777 == 0o755
    hands().do(GiveBack(**named(kernel), origins=origins(kernel, p="/alices/session", p101="/alices")))
    # None of its processes came from /alices.
    assert [where(kernel, pid) for pid in ALICES] == [{"/alices/session"}] * 2
    assert not first.exists()


def test_why_not_is_answered_in_words(kernel: Kernel) -> None:
    means = named(kernel)["means"]
    other = "cgroup2" if means == "cgroup1" else "cgroup1"
    assert hands().do(WhyNot(means)) == Answer(None)
    answer = hands().do(WhyNot(other))
    assert isinstance(answer, Answer)
    assert "not mounted" in (answer.why or "")
    with pytest.raises(PermissionError, match=f"jobs are held by {other} alone"):
        hands(means=other).do(WhyNot(means))


@pytest.mark.parametrize("stranger", [*BOBS, *ROOTS, *SYSTEMS])
def test_one_strangers_process_and_nothing_is_done(kernel: Kernel, stranger: int) -> None:
    before = kernel.files()
    with pytest.raises(PermissionError, match=f"process {stranger} belongs to uid"):
        hold(kernel, (*ALICES, stranger))
    assert kernel.files() == before
    hold(kernel, ALICES)
    held = kernel.files()
    with pytest.raises(PermissionError, match=f"process {stranger} belongs to uid"):
        hands().do(Gather(**named(kernel), pids=(stranger,)))
    assert kernel.files() == held


@pytest.mark.parametrize("uid", [ROOT, SYSTEM, LEAST_UID - 1])
@pytest.mark.parametrize("kind", [Hold, Gather, Lift, GiveBack, Clear])
def test_nothing_is_done_for_the_systems_own_users(kernel: Kernel, uid: int, kind: Any) -> None:
    more = {Hold: {"pids": ROOTS, "milli": 100}, Gather: {"pids": ROOTS}, GiveBack: {"origins": {}}}
    before = kernel.files()
    with pytest.raises(PermissionError, match=f"uid {uid} is one of the system's own"):
        hands().do(kind(**named(kernel, uid), **more.get(kind, {})))
    assert kernel.files() == before


@pytest.mark.parametrize("marks", [True, False])
def test_a_group_stays_with_the_user_of_its_first_request(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, *, marks: bool
) -> None:
    if not marks:
        monkeypatch.setattr(guard, "_mark", lambda *_: None)  # a kernel before 5.7
    hold(kernel, ALICES)
    held = kernel.files()
    for request in (
        Hold(**named(kernel, BOB), pids=BOBS, milli=100),
        Gather(**named(kernel, BOB), pids=BOBS),
        Lift(**named(kernel, BOB)),
        GiveBack(**named(kernel, BOB), origins={}),
        Clear(**named(kernel, BOB)),
    ):
        with pytest.raises(
            PermissionError, match=r"job-101-7 (is the group of a job|holds process 101) of uid 20001"
        ):
            hands().do(request)
    assert kernel.files() == held


def test_what_a_job_started_as_root_is_neither_moved_nor_in_the_way(kernel: Kernel) -> None:
    hold(kernel, ALICES)
    kernel.start(103, ROOT, "/slaqd/job-101-7", name="sudo")
    hold(kernel, ALICES, milli=200)
    hands().do(GiveBack(**named(kernel), origins=origins(kernel, p="/alices/session")))
    assert [where(kernel, pid) for pid in (*ALICES, 103)] == [{"/alices/session"}] * 2 + [OURS]


@pytest.mark.parametrize(
    "path", ["/../outside", "/alices/../../outside", "alices", "", "/alices/./x", "/alices\0/x", "//../x"]
)
def test_an_origin_that_leads_elsewhere_is_refused(kernel: Kernel, path: str) -> None:
    hold(kernel, ALICES)
    held = kernel.files()
    with pytest.raises(PermissionError, match=r"not a request that is served|is no group of a hierarchy"):
        hands().do(GiveBack(**named(kernel), origins=origins(kernel, p="/alices/session", p101=path)))
    assert kernel.files() == held


def test_no_process_is_sent_into_anothers_job(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_came_from", lambda _: None)  # a kernel before 5.7
    hold(kernel, ALICES)
    bobs = {**named(kernel, BOB), "id": 201}
    hands().do(Hold(**bobs, pids=BOBS, milli=100))
    held = kernel.files()
    with pytest.raises(PermissionError, match=r"job-101-7 .* of uid 20001"):
        hands().do(GiveBack(**bobs, origins=origins(kernel, p="/slaqd/job-101-7")))
    assert kernel.files() == held


def test_an_origin_that_is_gone_stands_for_the_nearest_above(kernel: Kernel) -> None:
    hold(kernel, ALICES)
    for point in kernel.mounts.values():
        groups.remove(point / "alices/session")
        (point / "alices").mkdir(exist_ok=True)
        (point / "alices/cgroup.procs").touch()
    hands().do(GiveBack(**named(kernel), origins=origins(kernel, p="/alices/session")))
    assert [where(kernel, pid) for pid in ALICES] == [{"/alices"}] * 2


def test_less_than_a_unit_and_more_than_the_machine_has_is_refused(kernel: Kernel) -> None:
    most = 1000 * (os.cpu_count() or 1)
    hold(kernel, ALICES, milli=most)
    for milli in (99, most + 1):
        with pytest.raises(
            PermissionError, match=f"{milli} thousandths of a core are not between one unit, 100"
        ):
            hold(kernel, ALICES, milli=milli)


def test_a_limit_of_somebody_elses_is_not_escaped(kernel: Kernel) -> None:
    limit(kernel, "/alices")
    before = kernel.files()
    with pytest.raises(PermissionError, match=r"a (CPU quota|limit) of its own"):
        hold(kernel, ALICES)
    assert kernel.files() == before


def test_a_group_that_others_may_write_to_is_not_used(kernel: Kernel) -> None:
    for point in kernel.mounts.values():
        (point / "slaqd").mkdir(mode=0o777)
        (point / "slaqd").chmod(0o777)
    before = kernel.files()
    with pytest.raises(PermissionError, match="slaqd is not the agent's own"):
        hold(kernel, ALICES)
    assert kernel.files() == before


def test_nothing_is_gathered_into_a_hold_that_is_not_there(kernel: Kernel) -> None:
    with pytest.raises(PermissionError, match="job 101 is not held by"):
        hands().do(Gather(**named(kernel), pids=ALICES))


def test_a_container_whose_processes_stand_at_the_top_is_not_emptied(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, 2)
    (kernel.mounts[""] / "cgroup.type").write_text("domain")
    kernel.start(70, ROOT, "/")
    with kernel.stands():
        answer = hands().do(WhyNot("cgroup2"))
        assert isinstance(answer, Answer)
        assert "processes stand in it" in (answer.why or "")
        with pytest.raises(PermissionError, match="processes stand in it"):
            hold(kernel, ALICES)


def test_a_number_that_changed_hands_while_it_was_moved_goes_back(kernel: Kernel) -> None:
    hold(kernel, (101,))
    really = groups.move
    (kernel.proc / "1").mkdir()
    (kernel.proc / "1/cgroup").write_text("".join(f"3:{name}:/bobs\n" for name in kernel.mounts))

    def late(pids: list[int], directory: Path, tree: Hierarchy | None = None) -> None:
        # The process ends, and its number is bob's by the time that it is moved.
        if pids == [102] and directory.name == "job-101-7":
            (kernel.proc / "102").rename(kernel.at / "gone")
            (kernel.at / "gone/status").unlink()
            kernel.start(102, BOB, "/bobs")
        really(pids, directory, tree)

    with patch.object(groups, "move", late):
        hands().do(Gather(**named(kernel), pids=(102,)))
    assert where(kernel, 102) == {"/bobs"}
    assert [where(kernel, pid) for pid in (101, *BOBS)] == [OURS, {"/bobs"}, {"/bobs"}]


def test_a_group_whose_name_is_no_text_stands_for_the_one_above() -> None:
    assert groups.plain("/user/a\udcff/b") == "/user"
    assert groups.plain("/\udcff") == "/"
    assert groups.plain("/ü/b") == "/ü/b"


def test_a_guard_for_the_systems_own_is_not_made() -> None:
    with pytest.raises(PermissionError, match="uid 999 is one of the system's own"):
        Guard(999, 1000)


PATHS = st.one_of(
    st.sampled_from(
        [
            "/",
            "/alices",
            *HOME.values(),
            "/../outside",
            "..",
            "/slaqd",
            "/slaqd/job-101-7",
            "/slaqd/job-201-7",
        ]
    ),
    st.text(max_size=12),
)
PIDS = st.one_of(
    st.sampled_from([pid for pids in USERS.values() for pid in pids]), st.integers(-3, 3), st.integers()
)
TYPES = st.sampled_from(["why_not", "hold", "hold", "gather", "lift", "give_back", "clear"])
ORIGINS = st.dictionaries(
    st.sampled_from(["", "cpu", "cpuacct", "x"]),
    st.dictionaries(st.sampled_from(["", "101", "201", "50", "../1"]), PATHS, max_size=3),
    max_size=3,
)
HOSTILE = st.fixed_dictionaries(
    {
        "type": st.one_of(TYPES, st.just("root")),
        "means": st.sampled_from(["cgroup1", "cgroup2", "keeper", "../x"]),
        "id": st.one_of(st.sampled_from([101, 201, 2, 1, 0, -1, "../../outside"]), st.integers()),
        "start": st.one_of(st.just(7), st.integers(), st.just("/../7")),
        "uid": st.one_of(st.sampled_from([ALICE, BOB, ROOT, SYSTEM, -1, 2**32 - 1]), st.integers()),
        "pids": st.lists(PIDS, max_size=4),
        "milli": st.one_of(st.integers(1, 2000), st.integers()),
        "origins": ORIGINS,
    }
)
CONFUSED = st.fixed_dictionaries(
    {
        "type": TYPES,
        "id": st.sampled_from([101, 201]),
        "start": st.just(7),
        "uid": st.sampled_from([ALICE, BOB]),
        "pids": st.lists(st.sampled_from([*ALICES, *BOBS, *ROOTS]), min_size=1, max_size=2),
        "milli": st.integers(1, 2000),
        "origins": ORIGINS,
    }
)
KINDS: dict[str, tuple[Any, set[str]]] = {
    "why_not": (WhyNot, {"means"}),
    "hold": (Hold, {"means", "id", "start", "uid", "pids", "milli"}),
    "gather": (Gather, {"means", "id", "start", "uid", "pids"}),
    "lift": (Lift, {"means", "id", "start", "uid"}),
    "give_back": (GiveBack, {"means", "id", "start", "uid", "origins"}),
    "clear": (Clear, {"means", "id", "start", "uid"}),
}
MAY_CHANGE = re.compile(
    r"cgroup/((cpu|cpuacct)/)?(slaqd/(cpu\.shares|cpu\.weight|cgroup\.subtree_control|cgroup\.procs"
    r"|job-[0-9]+-[0-9]+/[a-z_.]+)|slaqd/[a-z_.]+|cgroup\.subtree_control|([a-z/]+/)?cgroup\.procs)"
    r"|proc/[0-9]+/cgroup"
)


def ask(asked: dict[str, Any], *, decoded: bool) -> None:
    """Ask as a slaqd that was taken over would: through the agent's decoder, or as if that were no bar."""
    kind, fields = KINDS.get(asked["type"], (None, set()))
    if decoded or kind is None:
        sent = {name: value for name, value in asked.items() if name in fields | {"type"}}
        request = msgspec.json.decode(msgspec.json.encode(sent), type=requests.Request)
    else:
        request = kind(**{name: asked[name] for name in fields})
    hands().do(request)


def uid_of(pid: int) -> int:
    return next(uid for uid, pids in USERS.items() if pid in pids)


def groups_of_all(kernel: Kernel) -> dict[int, set[str]]:
    return {pid: where(kernel, pid) for pids in USERS.values() for pid in pids}


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=40, deadline=None)
@given(asked=st.lists(st.tuples(st.one_of(CONFUSED, HOSTILE), st.booleans()), min_size=4, max_size=8))
def test_whatever_is_asked_only_jobs_groups_are_written(
    version: int, asked: list[tuple[dict[str, Any], bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(Path(folder), version)
        (kernel.at / "outside").mkdir()
        (kernel.at / "outside/cgroup.procs").touch()
        with kernel.stands():
            for uid, pids in ((ALICE, ALICES), (BOB, BOBS)):
                one = {**named(kernel, uid), "id": pids[0]}
                hands().do(Hold(**one, pids=pids[:1], milli=100))
            files, folders, places = kernel.files(), kernel.folders(), groups_of_all(kernel)
            for fields, decoded in asked:
                with suppress(OSError, msgspec.MsgspecError):
                    fields.setdefault("means", f"cgroup{version}")
                    ask(fields, decoded=decoded)
                before, files = files, kernel.files()
                changed = {
                    name for name in before.keys() | files.keys() if before.get(name) != files.get(name)
                }
                assert [name for name in changed if not MAY_CHANGE.fullmatch(name)] == []
                was, places = places, groups_of_all(kernel)
                moved = {uid_of(pid) for pid, group in places.items() if group != was[pid]}
                assert moved <= {fields["uid"]} & {ALICE, BOB}
                for job in kernel.at.glob("cgroup/**/job-*"):
                    assert len({uid_of(int(pid)) for pid in (job / "cgroup.procs").read_text().split()}) <= 1
            made = kernel.folders() - folders
            assert all(re.fullmatch(r"cgroup/((cpu|cpuacct)/)?slaqd(/job-\d+-\d+)?", name) for name in made)


def test_requests_are_refused_out_of_hand_where_they_make_no_sense() -> None:
    for nonsense in ("hold", None, {"type": "hold"}, CgroupMount(Path("/"), "/", frozenset())):
        with pytest.raises(PermissionError, match="not a request that is served"):
            hands().do(nonsense)
