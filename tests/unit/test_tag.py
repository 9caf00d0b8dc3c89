"""The tag's grammar."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slaqd.errors import TagError
from slaqd.tag import (
    LONGEST,
    LONGEST_PATH,
    MOST_UNITS,
    check,
    expand,
    from_mapping,
    merge,
    parse,
    parse_script,
    parse_words,
    render,
)
from slaqd.types import Better, JobKey, Lever, Tag

KEY = JobKey("slurm", "123", 1)


def filled(log: str, **given: str) -> str:
    values = {"user": "alice", "name": "mlp", "cwd": "/home/alice", **given}
    job = JobKey("slurm", values.pop("id", "123"), 1)
    return expand(
        log, key=job, user=values["user"], name=values["name"], cwd=values["cwd"], task=given.get("task")
    )


def test_all_keys_are_read() -> None:
    text = (
        "slaq:v1 log=runs/{jobid}/m.csv key=val_loss format=csv better=higher min=1 max=8 weight=1.5 "
        "target=0.05 lever=array dir=slaq worker=w.sh grace=30 signal=USR1 done=stop"
    )
    assert parse(text) == Tag(
        log="runs/{jobid}/m.csv",
        key="val_loss",
        format="csv",
        better=Better.HIGHER,
        min=1,
        max=8,
        weight=1.5,
        target=0.05,
        lever=Lever.ARRAY,
        dir="slaq",
        worker="w.sh",
        grace=30.0,
        signal="USR1",
        done="stop",
    )


@pytest.mark.parametrize(
    "text",
    ["", "just my notes", "slaq: later", "myslaq:v1 min=2", "http://slaq:v1/x", "slaq:v1x min=2", '{"a": 1}'],
)
def test_a_text_without_a_tag_has_none(text: str) -> None:
    assert parse(text) is None


def test_the_users_own_words_round_a_tag_are_left_alone() -> None:
    assert parse("don't touch; slaq:v1 min=2 max=4 please, it's mine = ok") == Tag(min=2, max=4)
    assert parse("slaq:v1") == Tag()


def test_a_tag_ends_with_its_line() -> None:
    assert parse("slaq:v1 min=2\nmax=4") == Tag(min=2)


def test_values_are_quoted_as_in_a_shell() -> None:
    assert parse(r"""slaq:v1 log="my runs"/'a b'\ c.csv key=it"'"s""") == Tag(
        log="my runs/a b c.csv", key="it's"
    )


def test_json_inside_a_longer_text_is_read() -> None:
    text = 'gpu-exempt {"owner": {"x": 1}, "slaq": {"log": "m.csv", "min": 2, "target": 1e-3}} end'
    assert parse(text) == Tag(log="m.csv", min=2, target=0.001)


def test_of_several_tags_later_words_win() -> None:
    assert parse("slaq:v1 min=1 log=a my words slaq:v1 min=3") == Tag(min=3, log="a")


def test_a_tag_inside_a_quoted_value_is_a_value() -> None:
    assert parse("slaq:v1 key=' slaq:v1 min=2 '") == Tag(key=" slaq:v1 min=2 ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slaq:v1 mni=2", "unknown key 'mni'; known are log, key, format, better, min, max"),
        ("slaq:v1 min=two", "min=two must be a whole number from 1"),
        ("slaq:v1 min=0", "min=0 must be"),
        ("slaq:v1 min=1_0", "min=1_0 must be"),
        ("slaq:v1 min=٣", "min=٣ must be"),
        ("slaq:v1 max=1000001", "to 1000000"),
        ("slaq:v1 min=4 max=2", "min=4 is above max=2"),
        ("slaq:v1 weight=0", "weight=0 must be above 0"),
        ("slaq:v1 weight=0.099", "weight=0.099 must be from 0.1 to 10"),
        ("slaq:v1 weight=10.01", "weight=10.01 must be from 0.1 to 10"),
        ("slaq:v1 weight=1e999", "must be a finite number"),
        ("slaq:v1 weight=1.2.3", "must be a finite number"),
        ("slaq:v1 target=nan", "target=nan must be a number"),
        ("slaq:v1 grace=-1", "grace=-1 must not be below 0"),
        ("slaq:v1 better=up", "better=up must be one of lower, higher"),
        ("slaq:v1 lever=crowbar", "must be one of none, file"),
        ("slaq:v1 signal=kill-it!", "must be a signal"),
        ("slaq:v1 log=", "log= must be 1 to 1024 printable"),
        ("slaq:v1 log='a\nb'", "printable"),
        ("slaq:v1 log='a", "the quote in log= is not closed"),
        ('slaq:v1 log="a', "the quote in log= is not closed"),
        ("slaq:v1 log = a", "without spaces round the ="),
        ("slaq:v2 log=a", "slaq:v2 is not known"),
        ('{"slaq": {"log": "a"', "JSON object"),
        ('{"slaq": 3}', "JSON object"),
        ("{" * 300 + '"slaq": {}}', "JSON object"),
        ('{"slaq": {"min": true}}', "min=True must be text or a number"),
        ('{"slaq": {"min": 1.5}}', "min=1.5 must be a whole number"),
        ('{"slaq": {"worker": ["a"]}}', "must be text or a number"),
    ],
)
def test_a_wrong_tag_names_the_word_that_is_wrong(text: str, words: str) -> None:
    with pytest.raises(TagError, match=r"^tag: ") as caught:
        parse(text)
    assert words in str(caught.value)


def test_bare_words_are_a_tag_where_nothing_else_is_expected() -> None:
    assert parse_words("min=2 log=a") == parse_words(" slaq:v1 min=2 log=a ") == Tag(min=2, log="a")
    assert parse_words("") == Tag()
    with pytest.raises(TagError, match="'hello' is not key=value"):
        parse_words("min=2 hello world")
    with pytest.raises(TagError, match="slaq:v3 is not known"):
        parse_words("slaq:v3 min=2")


def test_slaq_lines_of_a_script_are_put_together() -> None:
    script = "#!/bin/sh\n#SBATCH -n 4\n#SLAQ log=a min=1\n#SLAQ slaq:v1 min=2\n# SLAQ max=1\necho '#SLAQ x'\n"
    assert parse_script(script) == Tag(log="a", min=2)
    assert parse_script("#!/bin/sh\n") is None


def test_numbers_and_text_make_the_same_tag() -> None:
    assert from_mapping({"min": 2, "weight": 2.0, "grace": "5"}) == Tag(min=2, weight=2.0, grace=5.0)


def test_the_nearest_tag_wins_key_by_key() -> None:
    assert merge(Tag(min=2), Tag(min=1, max=4), Tag(log="a", max=9)) == Tag(min=2, max=4, log="a")
    assert merge() == Tag()
    with pytest.raises(TagError, match="min=5 is above max=4"):
        merge(Tag(min=5), Tag(max=4))


def test_the_normal_form_is_one_line_in_one_order() -> None:
    tag = Tag(max=8, log="a b", weight=2.0, target=0.05, better=Better.LOWER)
    assert render(tag) == "slaq:v1 log='a b' better=lower max=8 weight=2 target=0.05"
    assert render(Tag()) == "slaq:v1"


def test_places_in_a_path_are_filled_in_both_spellings() -> None:
    assert filled("/r/{jobid}/{user}/{name}.csv") == filled("/r/%j/%u/%x.csv") == "/r/123/alice/mlp.csv"
    assert filled("/r/%A_%4a_{arrayid}_{taskid}", id="12_3") == "/r/12_0003_12_3"
    assert filled("/r/{taskid}", task="7") == "/r/7"
    assert filled("/100%%/%q/{}.csv") == "/100%/%q/{}.csv"


def test_a_relative_path_starts_at_the_jobs_working_directory() -> None:
    assert filled("runs/*.csv") == "/home/alice/runs/*.csv"
    assert filled("a", cwd="/") == "/a"
    with pytest.raises(TagError, match="log=a is relative"):
        filled("a", cwd="")


def test_what_is_filled_in_never_acts_as_a_glob() -> None:
    assert filled("{name}*", name="a[1]*", cwd="/w?") == "/w[?]/a[[]1][*]*"


@pytest.mark.parametrize("name", ["../../etc", "..", "", "a/b", "a\nb", "a\0b"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(TagError, match="can't stand in a path"):
        filled("/r/{name}/m.csv", name=name)


def test_unknown_places_and_tasks_of_no_array_are_refused() -> None:
    with pytest.raises(TagError, match=r"\{job\} is not known; known are jobid"):
        filled("/r/{job}")
    with pytest.raises(TagError, match="no array task"):
        filled("/r/%a")


LINE = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=40).filter(
    str.isprintable
)
ANY_TAG = st.builds(
    Tag,
    **{
        key: st.none() | st.text(max_size=9)
        for key in ("log", "key", "format", "dir", "worker", "done", "signal")
    },
    **{key: st.none() | st.integers(-9, 9) | st.just(10**400) for key in ("min", "max")},
    **{key: st.none() | st.floats() for key in ("weight", "target", "grace")},
)


@settings(deadline=None)  # no duration is promised
@given(ANY_TAG)
def test_a_tag_that_is_checked_is_one_that_a_line_can_say(tag: Tag) -> None:
    try:
        check(tag)
    except TagError as error:
        assert str(error).startswith("tag: ")  # noqa: PT017 - either outcome will do
    else:
        assert (parse(render(tag)) or Tag()) == tag


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        (Tag(log="x" * (LONGEST + 1)), "tag: log="),
        (Tag(key="a\0b"), "printable"),
        (Tag(dir=""), "tag: dir="),
        (Tag(min=MOST_UNITS + 1), "from 1 to 1000000"),
        (Tag(max=10**400), "from 1 to 1000000"),
        (Tag(min=3, max=2), "min=3 is above max=2"),
        (Tag(weight=1e9), "from 0.1 to 10"),
        (Tag(grace=-1.0), "must not be below 0"),
        (Tag(signal="no"), "must be a signal"),
    ],
)
def test_a_tag_that_no_line_can_say_is_refused_in_few_words(tag: Tag, words: str) -> None:
    with pytest.raises(TagError) as refused:
        check(tag)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_path_is_as_long_as_the_system_takes_and_no_longer() -> None:
    job = JobKey("slurm", "7", 0)
    for log, name in (("/" + "a" * (LONGEST_PATH - 1), "x"), ("/{name}", "x" * (LONGEST_PATH - 1))):
        assert len(expand(log, key=job, user="u", name=name, cwd="/")) == LONGEST_PATH
        with pytest.raises(TagError, match="more than 4096 characters"):
            expand(f"{log}a", key=job, user="u", name=name, cwd="/")
    with pytest.raises(TagError, match="more than 4096 characters"):
        expand("a", key=job, user="u", name="x", cwd="/" + "c" * LONGEST_PATH)


def test_a_name_that_stands_in_a_path_a_thousand_times_is_not_written_out() -> None:
    """6 KB of words would be a path of 13.5 MB, and 64 KB one of 1.5 GB."""
    tracemalloc.start()
    try:
        with pytest.raises(TagError, match="more than 4096 characters") as refused:
            expand("/" + "%x" * 16_000, key=JobKey("slurm", "7", 0), user="u", name="[" * 32_000, cwd="/")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("log", ["{nothing}", "{taskid}", "{name}", "x", "{" + "n" * 50_000 + "}"])
def test_what_is_wrong_with_an_endless_tag_is_told_in_few_words(log: str) -> None:
    with pytest.raises(TagError) as refused:
        expand(log + "x" * 50_000, key=JobKey("slurm", "7", 0), user="u", name="/" * 50_000, cwd="")
    assert len(str(refused.value)) < 700


FINITE = st.floats(allow_nan=False, allow_infinity=False)
UNITS = st.integers(1, 1_000_000)
TAGS = st.builds(
    Tag,
    **{key: st.none() | LINE for key in ("log", "key", "format", "dir", "worker", "done")},
    better=st.none() | st.sampled_from(Better),
    lever=st.none() | st.sampled_from(Lever),
    weight=st.none() | st.floats(min_value=0.1, max_value=10.0),
    target=st.none() | FINITE,
    grace=st.none() | st.floats(min_value=0, allow_infinity=False),
    signal=st.none() | st.sampled_from(["USR1", "SIGTERM", "RTMIN+3", "10"]),
    min=st.none() | st.integers(1, 500),
    max=st.none() | st.integers(500, 1_000_000),
)


@settings(deadline=None)  # no duration is promised
@given(TAGS, LINE)
def test_a_rendered_tag_is_read_back_the_same_behind_any_words(tag: Tag, words: str) -> None:
    assert parse(render(tag)) == tag
    assert parse_words(render(tag)) == tag
    if "slaq" not in words:
        assert parse(f"{words} {render(tag)}") == tag


@settings(deadline=None)  # no duration is promised
@given(st.text(max_size=200) | st.text(alphabet="slaq:v1 =min'\"\\{}2x\n", max_size=60))
def test_any_text_is_a_tag_or_none_or_an_error_for_the_user(text: str) -> None:
    try:
        found = parse(text)
    except TagError as error:
        assert str(error).startswith("tag: ")  # noqa: PT017 - either outcome will do
    else:
        assert found is None or parse(render(found)) == found
