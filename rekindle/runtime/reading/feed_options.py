"""What a user asks of the change feed by the options of the data source.

    startingEpoch, startingVersion      the first epoch that is read; "latest" is the one to come
    endingEpoch, endingVersion          the last one
    startingTimestamp, endingTimestamp  the same by the times of commits; without a zone in UTC
    readChangeFeed                      changes and not contents; any of the others says so too
    changeFormat                        "weights": _epoch, _weight, the columns, _commit_timestamp
                                        "cdc": the columns, _change_type, _commit_version,
                                        _commit_timestamp, as Delta and Spark's CDC call them
    maxEpochsPerTrigger                 so many epochs at most in a batch of a stream

Both ends are inclusive, as those of Delta are: `startingEpoch` 4 is `db.changes(name, since=3)`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import DefinitionError, HistoryError, did_you_mean
from rekindle.runtime.epochs.instants import instant_in_utc
from rekindle.runtime.epochs.state import State
from rekindle.traces.store import Store

STARTING = ("startingEpoch", "startingVersion", "startingTimestamp")
ENDING = ("endingEpoch", "endingVersion", "endingTimestamp")
CHANGE_FEED = "readChangeFeed"
FORMAT = "changeFormat"
LIMIT = "maxEpochsPerTrigger"
FEED_OPTIONS = (CHANGE_FEED, *STARTING, *ENDING, FORMAT, LIMIT)
LATEST = "latest"


class ChangeFormat(enum.Enum):
    """How the rows of a change say what was done."""

    WEIGHTS = "weights"
    CDC = "cdc"

    @property
    def before(self) -> tuple[str, ...]:
        """The columns in front of those of the table or view."""
        return ("_epoch", "_weight") if self is ChangeFormat.WEIGHTS else ()

    @property
    def after(self) -> tuple[str, ...]:
        """The columns behind them."""
        if self is ChangeFormat.WEIGHTS:
            return ("_commit_timestamp",)
        return ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of a change feed, as they were given."""

    given: Mapping[str, str]
    """By their names in lower case."""

    @staticmethod
    def of(options: Mapping[str, str]) -> FeedOptions | None:
        """The feed that options ask for; None where they ask for contents."""
        given = {n.lower(): options[n.lower()] for n in FEED_OPTIONS if n.lower() in options}
        if not given:
            return None
        wanted = _flag(given[CHANGE_FEED.lower()]) if CHANGE_FEED.lower() in given else True
        if not wanted:
            if len(given) > 1:
                other = next(n for n in FEED_OPTIONS[1:] if n.lower() in given)
                raise DefinitionError(
                    f"the option {other} is for changes, and {CHANGE_FEED} is false",
                    hint="leave one of them out",
                )
            return None
        if "epoch" in options:
            raise DefinitionError(
                "the option epoch is for contents, and changes are asked for",
                hint="startingEpoch and endingEpoch say which changes are read",
            )
        found = FeedOptions(given)
        for names in (STARTING, ENDING):
            named = [name for name in names if name.lower() in given]
            if len(named) > 1:
                raise DefinitionError(
                    f"the options {named[0]} and {named[1]} say the same", hint="leave one out"
                )
        found.refuse_unsound()
        return found

    def refuse_unsound(self) -> None:
        """Raise if an option has a value that it cannot have, or the end comes before the start."""
        _ = self.format, self.limit
        first, last = self._epoch(STARTING[:2]), self._epoch(ENDING[:2])
        if first is not None and last is not None and first > last:
            raise DefinitionError(
                f"the change feed would begin at epoch {first} and end at {last}",
                hint="both ends are read; give an end that is not before the start",
            )

    def _epoch(self, names: tuple[str, ...]) -> int | None:
        """The epoch that one of these options names."""
        given = [(name, self.given[name.lower()]) for name in names if name.lower() in self.given]
        if not given or given[0][1].lower() == LATEST:
            return None
        return _number(*given[0])

    @property
    def format(self) -> ChangeFormat:
        given = self.given.get(FORMAT.lower(), ChangeFormat.WEIGHTS.value)
        known = [each.value for each in ChangeFormat]
        if given.lower() not in known:
            raise DefinitionError(
                f"the option {FORMAT} is '{given}'",
                detail=f"known: {', '.join(known)}",
                hint=did_you_mean(given.lower(), known),
            )
        return ChangeFormat(given.lower())

    @property
    def limit(self) -> int | None:
        """How many epochs a batch of a stream has at most."""
        given = self.given.get(LIMIT.lower())
        if given is None:
            return None
        found = _number(LIMIT, given)
        if found < 1:
            raise DefinitionError(f"the option {LIMIT} is {given}, and a batch has one at least")
        return found

    @property
    def begins(self) -> bool:
        """Does it say where to begin?"""
        return any(name.lower() in self.given for name in STARTING)

    def since(self, state: State, store: Store) -> int:
        """The epoch after which changes are read."""
        for name in STARTING[:2]:
            given = self.given.get(name.lower())
            if given is not None and given.lower() == LATEST:
                return state.epoch
            if given is not None:
                first = max(_number(name, given), 1)
                if first > state.epoch + 1:
                    state.refuse_uncommitted(first)
                return first - 1
        time = self.given.get(STARTING[2].lower())
        if time is None:
            return 0
        return state.times.at(instant_in_utc(time) - 1, store) or 0

    def until(self, state: State, store: Store) -> int | None:
        """The last epoch that is read; None where it is not said."""
        for name in ENDING[:2]:
            given = self.given.get(name.lower())
            if given is not None:
                return _number(name, given)
        time = self.given.get(ENDING[2].lower())
        if time is None:
            return None
        return state.times.at(instant_in_utc(time), store) or 0


def _flag(given: str) -> bool:
    if given.lower() not in ("true", "false"):
        raise DefinitionError(f"the option {CHANGE_FEED} is '{given}', and not true or false")
    return given.lower() == "true"


def _number(name: str, given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise HistoryError(f"the option {name} is '{given}', which is no number") from None
