"""Room in whole resources: what fits, what a unit is worth of it, what is left."""

from __future__ import annotations

from slaqd.allocate.gain import Room

CPU = {"cpu_milli": 1000}


def test_a_unit_that_is_the_whole_pool_has_all_of_it_as_its_share() -> None:
    assert Room({"gpu": 1}).share({"gpu": 1}) == 1.0


def test_the_dominant_share_is_the_largest_of_all_resources() -> None:
    room = Room({"cpu_milli": 4000, "memory_mb": 100})
    assert room.share(CPU) == 0.25
    assert room.share({"cpu_milli": 1000, "memory_mb": 50}) == 0.5


def test_a_pool_that_counts_nothing_gives_no_share() -> None:
    assert Room({}).share(CPU) == 0.0


def test_as_many_units_fit_as_are_there_and_not_one_more() -> None:
    room = Room({"cpu_milli": 4000})
    cost = room.cost(CPU)
    assert [room.fits(cost, units) for units in (0, 4, 5, 4000)] == [True, True, False, False]


def test_an_overhead_that_just_fits_leaves_the_units_theirs() -> None:
    room = Room({"cpu_milli": 4000, "memory_mb": 100})
    assert room.most(room.cost(CPU), room.cost({"memory_mb": 100})) == 4
    assert room.most(room.cost(CPU), room.cost({"memory_mb": 101})) == 0


def test_what_is_taken_twice_over_leaves_nothing_and_no_less() -> None:
    room = Room({"cpu_milli": 2000, "memory_mb": 5})
    room.take(room.cost(CPU), 2)
    assert room.left() == {"cpu_milli": 0, "memory_mb": 5}
    assert room.holds()
    room.take(room.cost(CPU), 1)
    assert room.left() == {"cpu_milli": 0, "memory_mb": 5}
    assert not room.holds()


def test_a_copy_goes_its_own_way_and_keeps_the_size_of_the_whole() -> None:
    room = Room({"cpu_milli": 4000})
    room.take(room.cost(CPU), 3)
    twin = room.copy()
    twin.take(twin.cost(CPU), 1)
    assert (room.left(), twin.left()) == ({"cpu_milli": 1000}, {"cpu_milli": 0})
    assert twin.share(CPU) == 0.25
