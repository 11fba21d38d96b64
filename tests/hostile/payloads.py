"""Java's forms of what a database of unknown origin must not be able to make."""

from __future__ import annotations

import base64
from typing import Any

from pyspark.sql import SparkSession

from rekindle.catalyst.jvm import Catalyst
from tests.hostile.corpus import PROPERTY, Payloads

OBJECTS = "org.apache.spark.sql.catalyst.expressions.objects"


def java_payloads(spark: SparkSession) -> dict[str, bytes]:
    """Serialised objects by what is wrong with them."""
    catalyst = Catalyst(spark)
    jvm: Any = spark._jvm
    text = catalyst.data_type("string")
    none, nothing = catalyst.none(), catalyst.seq(())

    def literal(value: str) -> Any:
        return catalyst.literal(f"'{value}'")

    def static(name: str, method: str, *arguments: Any) -> Any:
        target = jvm.java.lang.Class.forName(name)
        given = catalyst.seq(arguments)
        make = catalyst.class_(f"{OBJECTS}.StaticInvoke")
        return make(target, text, method, given, nothing, False, True, True, none)

    def invoke(target: Any, method: str) -> Any:
        make = catalyst.class_(f"{OBJECTS}.Invoke")
        return make(target, method, text, nothing, nothing, False, True, True)

    def parsed(sql: str) -> Any:
        return spark.sql(sql)._jdf.queryExecution().analyzed()

    url = jvm.java.util.HashMap()
    url.put(jvm.java.net.URL("http://rekindle.invalid/"), "x")
    injected = f'x(); System.setProperty("{PROPERTY}", "ran"); this.toString'
    helper = "org.apache.spark.sql.catalyst.util.DateTimeUtils$"
    unit = f'DAY", 1, 1L, null) + Long.getLong(System.setProperty("{PROPERTY}", "ran")) + ("'
    one = catalyst.literal("1L")
    moment = catalyst.literal("timestamp'2020-01-01 00:00:00'")
    added = catalyst.expression("TimestampAdd")(unit, one, moment, none)
    spark.udf.register("hostile", lambda x: x)
    objects: dict[str, Any] = {
        "a file": jvm.java.io.File("/etc/passwd"),
        "a map of a URL": url,
        "a priority queue": jvm.java.util.PriorityQueue(2),
        "a lambda of another class": jvm.java.util.Map.Entry.comparingByKey(),
        "a date of java.util": jvm.java.util.Date(0),
        "a properties table": jvm.java.util.Properties(),
        "a call of System": static(
            "java.lang.System", "setProperty", literal(PROPERTY), literal("ran")
        ),
        "code for a method": static(helper, injected),
        "an address": static("org.apache.spark.unsafe.array.ByteArrayMethods", "arrayEquals"),
        "a class of a text": invoke(literal("x"), "getClass"),
        "code for a unit": added,
        "reflection": parsed(
            f"SELECT reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'ran') AS x, 1 AS y"
        ),
        "a Python function": parsed("SELECT hostile('x') AS x"),
        "a subquery": parsed("SELECT (SELECT max(id) FROM range(3)) AS x"),
        "a command": jvm.org.apache.spark.sql.execution.command.AddJarsCommand(
            catalyst.seq(["x.jar"])
        ),
    }
    found = {name: catalyst.serialise([each]) for name, each in objects.items()}
    stream = jvm.java.io.ByteArrayOutputStream()
    out = jvm.java.io.ObjectOutputStream(stream)
    out.writeObject(jvm.java.io.File("/etc/passwd"))
    out.close()
    found["no sequence"] = bytes(stream.toByteArray())
    good = catalyst.serialise([catalyst.literal("1")])
    found["more than it says"] = good[:-10] + b"\x7f" * 10
    # A text whose length is two gigabytes, at the end of a stream that is right so far.
    found["a length that lies"] = good[:4] + b"t\x00\x00" + b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T"
    found["deep"] = b"\xac\xed\x00\x05" + b"ur\x00\x13[Ljava.lang.Object;" * 3000
    found["nothing"] = b""
    return found


def payloads(spark: SparkSession, marker: str) -> Payloads:
    """What the corpus is made with."""
    java = java_payloads(spark).items()
    return Payloads({name: base64.b64encode(data).decode() for name, data in java}, marker)
