"""A regression over a join that follows every change, and a picture of half a year of it.

python examples/regression.py [FILE.svg]
"""

import sys
from pathlib import Path

import rekindle
from rekindle.benchmarks.chart import Line, line_chart

WEEKS = 24
REGIONS = ("centre", "coast", "suburb")

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE areas (id INT, region STRING, distance DOUBLE, PRIMARY KEY (id))")
db.sql("CREATE TABLE houses (id INT, area INT, kind STRING, size DOUBLE, price DOUBLE)")
db.sql("""
    INSERT INTO areas
    SELECT id, CASE WHEN id < 7 THEN 'centre' WHEN id < 14 THEN 'suburb' ELSE 'coast' END, 1.0 + id
    FROM range(20)
""")
db.sql("""
    INSERT INTO houses
    SELECT id, id % 20, if(id % 3 = 0, 'flat', 'house'), 50 + id % 70,
           50000 + 2000 * (50 + id % 70) - 3000 * (id % 20) + if(id % 3 = 0, 0, 40000) + id % 977
    FROM range(4000)
""")
db.create_model(
    "prices",
    """
    SELECT h.price, h.size, h.kind, a.region, a.distance
    FROM houses h JOIN areas a ON h.area = a.id
    """,
    label="price",
    features=["size", "kind", "region", "distance"],
)
model = db.model("prices")


def show(when: str) -> None:
    found = ", ".join(f"{name} {value:,.0f}" for name, value in model.coefficients().items())
    print(f"{when:>24}: {found}; r² {model.r2():.4f}")


homes = db.spark.createDataFrame(
    [(80.0, "flat", region, 10.0) for region in REGIONS],
    "size double, kind string, region string, distance double",
)


def predicted() -> dict[str, float]:
    return {row.region: row.prediction for row in model.predict(homes).collect()}


show("at first")
assert abs(model.coefficients()["size"] - 2000) < 1
assert abs(model.coefficients()["kind=house"] - 40000) < 100
course = [predicted()]
for week in range(WEEKS):
    # One house in 24 is priced anew, each in its turn.
    db.sql(f"""
        UPDATE houses
        SET price = price * CASE WHEN area < 7 THEN 1.4 WHEN area < 14 THEN 1.1 ELSE 0.9 END
        WHERE id div 60 % {WEEKS} = {week}
    """)
    course.append(predicted())
show("after half a year")
assert course[-1]["centre"] > course[0]["centre"] > course[-1]["coast"]
db.sql("UPDATE areas SET distance = distance / 2")
show("a railway was opened")
db.sql("DELETE FROM houses WHERE area >= 14")
show("the coast is sold out")
assert predicted()["coast"] is None  # No row tells what a home there costs.
print(db.check("prices"))
db.close()

if sys.argv[1:]:
    lines = [
        Line(region, [(week, [each[region] / 1000]) for week, each in enumerate(course)])
        for region in REGIONS
    ]
    title = "What a flat of 80 m² costs, by a model that follows the prices"
    Path(sys.argv[1]).write_text(
        line_chart(title, "week", "predicted price, thousands", lines, logarithmic=False)
    )
