"""The settings of a Spark session that decide what a query means.

The same text is another query in another time zone, with ANSI arithmetic off or with names told
apart by case. Spark keeps most of that in the expressions once they are resolved (a cast knows its
zone and whether it raises), but not all: the policy for equal keys of maps, the parser of dates and
the zone in which Python functions see timestamps are read when an expression runs. So a view keeps
the settings it was made under, and everything that is done with its query is done under these.

Settings whose default comes from outside of Spark, or has moved between its versions, are kept with
the value in effect; all others are kept if they were set, and are at their default if not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.errors import CorruptionError

JavaObject = Any

ZONE = "spark.sql.session.timeZone"
_ALWAYS = (
    ZONE,
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.crossJoin.enabled",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
)
_WHEN_SET = (
    "spark.sql.binaryOutputStyle",
    "spark.sql.charAsVarchar",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.collation.",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.cteRecursion",
    "spark.sql.function.",
    "spark.sql.groupBy",
    "spark.sql.icu.",
    "spark.sql.json",
    "spark.sql.lateralColumnAlias.",
    "spark.sql.legacy.",
    "spark.sql.analyzer.",
    "spark.sql.ansi.",
    "spark.sql.orderByOrdinal",
    "spark.sql.parser.",
    "spark.sql.pivotMaxValues",
    "spark.sql.preserveCharVarcharTypeInfo",
    "spark.sql.readSideCharPadding",
    "spark.sql.session.collation",
    "spark.sql.timeType.",
    "spark.sql.timestampNanosTypes.",
    "spark.sql.variant.",
)
"""Names, or how names begin."""
_READ_WHEN_RUN = ("spark.sql.legacy.", "spark.sql.mapKeyDedupPolicy", "spark.sql.json")
_DEFAULTS = {"spark.sql.mapKeyDedupPolicy": "EXCEPTION"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings by name, in the order of the names."""

    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Settings:
        """Settings as they are compared: whoever sets a name first."""
        return cls(tuple(sorted(values.items())))

    @classmethod
    def of_json(cls, data: object) -> Settings | None:
        """What a stored view has for settings, if it says; refuses names that are none of ours.

        A database is data that may come from anybody: a setting that names a class or a program
        would be run by whoever opens it.
        """
        if data is None:
            return None
        values: dict[str, Any] = data if isinstance(data, dict) else {"": data}
        for name, value in values.items():
            known = isinstance(name, str) and name.startswith((*_ALWAYS, *_WHEN_SET))
            if not known or not isinstance(value, str):
                raise CorruptionError(
                    f"a view's settings hold '{name}', which decides nothing about queries",
                    hint="restore the log from a backup",
                )
        return cls.of(values)

    def towards(self, wanted: Settings) -> dict[str, str | None]:
        """What to set, or with None to unset, where these hold, so that the wanted ones do.

        >>> here = Settings.of({"zone": "UTC", "legacy": "true"})
        >>> here.towards(Settings.of({"zone": "Asia/Tokyo"}))
        {'legacy': None, 'zone': 'Asia/Tokyo'}
        """
        here, there = dict(self.values), dict(wanted.values)
        changed = {name: there.get(name) for name in here if here[name] != there.get(name)}
        changed |= {name: value for name, value in there.items() if name not in here}
        return dict(sorted(changed.items()))

    @property
    def run_time_mark(self) -> str:
        """What expressions read when they run, where it is not the default; nothing mostly.

        It is a part of an expression's identity: equal expressions under other settings of these
        are different functions, and may not share what is kept for them.
        """
        return "|".join(
            f"{name}={value}"
            for name, value in self.values
            if name.startswith(_READ_WHEN_RUN) and _DEFAULTS.get(name) != value
        )

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return dict(self.values).get(ZONE, "")


class SessionSettings:
    """The settings of one session, read again only after something in it was set."""

    def __init__(self, session: JavaObject) -> None:
        self._session = session
        # One object as long as the session lives; its hash is one round trip.
        self._set = session.sessionState().conf().settings()
        self._hash = self._set.hashCode
        self._known: tuple[int, Settings] | None = None

    def now(self) -> Settings:
        """The settings in effect."""
        hash_ = int(self._hash())
        if self._known is None or self._known[0] != hash_:
            self._known = (hash_, self._read())
        return self._known[1]

    def _read(self) -> Settings:
        conf = self._session.conf()
        names = str(self._set.keySet().toString()).strip("[]").split(", ")
        found = {name: str(conf.get(name)) for name in _ALWAYS}
        for name in names:
            if name.startswith(_WHEN_SET) and name not in found and conf.isModifiable(name):
                found[name] = str(conf.get(name))
        return Settings.of(found)


def described(settings: Settings, now: Settings) -> str:
    """What a view's settings are where those of the session are others; nothing if they agree."""
    changed = now.towards(settings)
    return "\n".join(
        f"{name} = {'its default' if value is None else value}" for name, value in changed.items()
    )
