"""Nexmark's events: people who register, auctions that open and bids, as columns of numbers.

Of fifty events in a row the first is a person, the next three are auctions and the rest are bids. A
bid is for the hot auction or for any of those that are open, by the hot bidder or by anyone active.
Every event is a function of its number and of the seed, so any stretch of them can be made by
itself; an event comes every millisecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]

SCHEMAS = {
    "person": "id BIGINT NOT NULL, name STRING, email STRING, card STRING, city STRING, "
    "state STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT NOT NULL, item STRING, description STRING, initial BIGINT, "
    "reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, "
    "extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "date_time TIMESTAMP, extra STRING",
}
KEYS = {"person": ("id",), "auction": ("id",), "bid": ()}

PEOPLE, AUCTIONS, ALL = 1, 3, 50
"""People and auctions among so many events."""
HOT_AMONG = 100
"""The hot auction and seller are the last whose number is a multiple of this."""
IN_FLIGHT, ACTIVE = 100, 1000
"""Bids are for so many auctions at a time, and by so many people."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
BEGINNING = 1_772_323_200_000_000
"""The time of the first event, in microseconds: 2026-03-01 in UTC."""
PACE = 1_000
"""Microseconds between two events."""
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Seattle", "Cheyenne")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple", *(f"channel-{i}" for i in range(96)))
WORDS = 4_096
"""Texts are drawn from so many."""


class Events:
    """The events of a seed."""

    def __init__(self, seed: int = 7) -> None:
        self._seed = seed
        draw = np.random.default_rng(seed)
        letters = draw.integers(97, 123, (WORDS, 24), dtype=np.uint8)
        lengths = draw.integers(8, 25, WORDS)
        words = [bytes(row[:n]).decode() for row, n in zip(letters, lengths, strict=True)]
        self._words = pa.array(words)

    def take(self, first: int, events: int) -> dict[str, pa.Table]:
        """The rows of so many events from one on, by their tables."""
        numbers = np.arange(first, first + events)
        place = numbers % ALL
        # Texts and amounts of one stretch do not depend on those of another.
        draw = np.random.default_rng([self._seed, first])
        return {
            "person": self._people(draw, numbers[place < PEOPLE]),
            "auction": self._auctions(
                draw, numbers[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)]
            ),
            "bid": self._bids(draw, numbers[place >= PEOPLE + AUCTIONS]),
        }

    def _people(self, draw: np.random.Generator, numbers: Int64s) -> pa.Table:
        rows = len(numbers)
        return pa.table(
            {
                "id": FIRST_ID + numbers // ALL,
                "name": self._text(draw, rows),
                "email": self._text(draw, rows),
                "card": self._text(draw, rows),
                "city": _one_of(draw, CITIES, rows),
                "state": _one_of(draw, STATES, rows),
                "date_time": _times(numbers),
                "extra": self._text(draw, rows),
            }
        )

    def _auctions(self, draw: np.random.Generator, numbers: Int64s) -> pa.Table:
        rows = len(numbers)
        last = numbers // ALL
        hot = draw.random(rows) < 0.75
        seller = np.where(hot, last // HOT_AMONG * HOT_AMONG, _recent(draw, last, ACTIVE))
        initial = _prices(draw, rows)
        # About as long as it takes until the auction is no longer among those that are bid for.
        horizon = 2 * PACE * IN_FLIGHT * ALL // AUCTIONS
        return pa.table(
            {
                "id": FIRST_ID + _auction(numbers),
                "item": self._text(draw, rows),
                "description": self._text(draw, rows),
                "initial": initial,
                "reserve": initial + _prices(draw, rows),
                "date_time": _times(numbers),
                "expires": _times(numbers, draw.integers(1, horizon, rows)),
                "seller": FIRST_ID + seller,
                "category": FIRST_CATEGORY + draw.integers(0, CATEGORIES, rows),
                "extra": self._text(draw, rows),
            }
        )

    def _bids(self, draw: np.random.Generator, numbers: Int64s) -> pa.Table:
        rows = len(numbers)
        last, person = _auction(numbers), numbers // ALL
        hot = draw.random(rows) < 0.5
        auction = np.where(hot, last // HOT_AMONG * HOT_AMONG, _recent(draw, last, IN_FLIGHT))
        keen = draw.random(rows) < 0.75
        bidder = np.where(keen, person // HOT_AMONG * HOT_AMONG, _recent(draw, person, ACTIVE))
        return pa.table(
            {
                "auction": FIRST_ID + auction,
                "bidder": FIRST_ID + bidder,
                "price": _prices(draw, rows),
                "channel": _one_of(draw, CHANNELS, rows),
                "url": self._text(draw, rows),
                "date_time": _times(numbers),
                "extra": self._text(draw, rows),
            }
        )

    def _text(self, draw: np.random.Generator, rows: int) -> pa.Array:
        return self._words.take(pa.array(draw.integers(0, WORDS, rows)))


def _auction(numbers: Int64s) -> Int64s:
    """The last auction that is there at an event, or the one that it opens."""
    place = np.minimum(numbers % ALL - PEOPLE, AUCTIONS - 1)
    found: Int64s = numbers // ALL * AUCTIONS + place
    return found


def _recent(draw: np.random.Generator, last: Int64s, window: int) -> Int64s:
    """Any of the last so many."""
    found: Int64s = np.maximum(last - draw.integers(0, window, len(last)), 0)
    return found


def _prices(draw: np.random.Generator, rows: int) -> Int64s:
    """From a dollar to a million, in cents; each power of ten is as likely as another."""
    found: Int64s = (10 ** (draw.random(rows) * 6) * 100).astype(np.int64)
    return found


def _one_of(draw: np.random.Generator, values: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(list(values)).take(pa.array(draw.integers(0, len(values), rows)))


def _times(numbers: Int64s, later: Int64s | int = 0) -> pa.Array:
    micros: npt.NDArray[Any] = BEGINNING + numbers * PACE + later
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))
