"""Nexmark's events: people who register, auctions that open, bids, as its description has them.

Of fifty events in a row the first is a person, the next three are auctions, the rest are bids. A
bid is for the hot auction or for any that may still be open, by the hot bidder or by anyone active;
a few name an auction or a person who comes only later. Everything follows from the seed.

Time is denser in a benchmark. Here an event comes every tenth of a second, so that few of them
fill many windows, and every four hundred are followed by seven quiet hours, so that they fill days.
"""

from __future__ import annotations

import random
import string
from datetime import UTC, datetime, timedelta
from itertools import count, islice

from tests.external.compare import Row

SCHEMAS = {
    "person": "id BIGINT PRIMARY KEY, name STRING, emailAddress STRING, creditCard STRING, "
    "city STRING, state STRING, date_time TIMESTAMP NOT NULL, extra STRING",
    "auction": "id BIGINT PRIMARY KEY, itemName STRING, description STRING, initialBid BIGINT, "
    "reserve BIGINT, date_time TIMESTAMP NOT NULL, expires TIMESTAMP, seller BIGINT, "
    "category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "date_time TIMESTAMP NOT NULL, extra STRING",
}
PRICE = {"auction": 3, "bid": 2}
"""The column of an amount of money."""

PEOPLE, AUCTIONS, ALL = 1, 3, 50
HOT_AUCTION, HOT_SELLER, HOT_BIDDER = 2, 4, 4
"""Of so many choices all but one are hot."""
HOT_AMONG = 100
"""The hot one is the first, the hot bidder the second, of so many."""
IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
CHANNELS = 10_000

START = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)
PACE = timedelta(milliseconds=100)
OPEN_FOR, QUIET = 400, timedelta(hours=7)

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Seattle", "Cheyenne")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


class Events:
    """The events from the first on, as rows of their tables."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._numbers = count()
        self._hot_urls = {channel: self._url() for channel in HOT_CHANNELS}

    def take(self, events: int) -> dict[str, list[Row]]:
        """The rows of the next so many events."""
        rows: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
        for number in islice(self._numbers, events):
            table, row = self._event(number)
            rows[table].append(row)
        return rows

    def price(self) -> int:
        """From a dollar to a million, in cents; each power of ten is as likely as another."""
        return round(10 ** (self._random.random() * 6) * 100)

    def _event(self, number: int) -> tuple[str, Row]:
        time = START + number * PACE + number // OPEN_FOR * QUIET
        # The last person and auction so far, or the ones that this event makes.
        round_, place = divmod(number, ALL)
        person = round_ * PEOPLE + min(place, PEOPLE - 1)
        auction = round_ * AUCTIONS + min(place - PEOPLE, AUCTIONS - 1)
        if place < PEOPLE:
            return "person", self._person(person, time)
        if place < PEOPLE + AUCTIONS:
            return "auction", self._auction(auction, person, time)
        return "bid", self._bid(auction, person, time)

    def _person(self, number: int, time: datetime) -> Row:
        pick = self._random.choice
        name = f"{pick(FIRST_NAMES)} {pick(LAST_NAMES)}"
        email = f"{self._text(7)}@{self._text(5)}.com"
        card = " ".join(f"{self._random.randrange(10_000):04}" for _ in range(4))
        home = pick(CITIES), pick(STATES)
        return (FIRST_ID + number, name, email, card, *home, time, self._text(20))

    def _auction(self, number: int, person: int, time: datetime) -> Row:
        seller = self._hot(person) if self._random.randrange(HOT_SELLER) else self._anyone(person)
        asked = self.price()
        horizon = PACE * IN_FLIGHT * ALL / AUCTIONS
        return (
            FIRST_ID + number,
            self._text(20),
            self._text(40),
            asked,
            asked + self.price(),
            time,
            time + timedelta(milliseconds=1) + self._random.random() * 2 * horizon,
            FIRST_ID + seller,
            FIRST_CATEGORY + self._random.randrange(CATEGORIES),
            self._text(20),
        )

    def _bid(self, auction: int, person: int, time: datetime) -> Row:
        if self._random.randrange(HOT_AUCTION):
            wanted = self._hot(auction)
        else:
            wanted = self._random.randint(max(auction - IN_FLIGHT, 0), auction + LEAD)
        hot = self._random.randrange(HOT_BIDDER)
        bidder = self._hot(person) + 1 if hot else self._anyone(person)
        ids = FIRST_ID + wanted, FIRST_ID + bidder
        return (*ids, self.price(), *self._channel(), time, self._text(20))

    def _hot(self, last: int) -> int:
        return last // HOT_AMONG * HOT_AMONG

    def _anyone(self, last: int) -> int:
        return self._random.randint(max(last + 1 - ACTIVE, 0), last + LEAD)

    def _channel(self) -> tuple[str, str]:
        """Half of the bids come by a hot channel; of the other urls one in ten has no number."""
        if self._random.randrange(2):
            channel = self._random.choice(HOT_CHANNELS)
            return channel, self._hot_urls[channel]
        number = self._random.randrange(CHANNELS)
        told = f"&channel_id={str(number)[::-1]}" if self._random.randrange(10) else ""
        return f"channel-{number}", self._url() + told

    def _url(self) -> str:
        folders = "/".join(self._text(5, "_") for _ in range(3))
        return f"https://www.nexmark.com/{folders}/item.htm?query=1"

    def _text(self, longest: int, separator: str = " ") -> str:
        """At least three letters; a separator stands for one in thirteen."""
        letters = string.ascii_lowercase + 2 * separator
        return "".join(self._random.choices(letters, k=self._random.randint(3, longest)))
