"""The movies of section 3.1, and the query that relates them (example 3)."""

from __future__ import annotations

from rekindle.nested.nrc import bag, boxed, for_in, path, sng, where
from rekindle.nested.scalars import both, different, either, equal
from rekindle.nested.terms import KeyTerm, MakeRecord, RingTerm
from rekindle.nested.types import Record, Scalar

STRING = Scalar("string")
MOVIE = Record((("name", STRING), ("gen", STRING), ("dir", STRING)))
M = bag("M", MOVIE)

MOVIES = {
    ("Drive", "Drama", "Refn"): 1,
    ("Skyfall", "Action", "Mendes"): 1,
    ("Rush", "Action", "Howard"): 1,
}
JARHEAD = {("Jarhead", "Drama", "Mendes"): 1}


def is_related(m: KeyTerm, m2: KeyTerm) -> KeyTerm:
    """Two different movies of the same genre, or by the same director."""
    return both(
        different(path(m, "name"), path(m2, "name")),
        either(
            equal(path(m, "gen"), path(m2, "gen")),
            equal(path(m, "dir"), path(m2, "dir")),
        ),
    )


def related_to(m: KeyTerm) -> RingTerm:
    """relB(m): the names of the movies that are related to m."""
    return for_in("m2", M, lambda m2: where(is_related(m, m2), sng(path(m2, "name"))))


RELATED = for_in(
    "m",
    M,
    lambda m: sng(MakeRecord((("name", path(m, "name")), ("related", boxed(related_to(m)))))),
)
