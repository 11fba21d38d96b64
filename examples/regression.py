"""A regression over a join that follows every change of the houses and of their areas.

python examples/regression.py
"""

import rekindle

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE areas (id INT, distance DOUBLE, PRIMARY KEY (id))")
db.sql("CREATE TABLE houses (area INT, size DOUBLE, price DOUBLE)")
db.sql("INSERT INTO areas SELECT id, 1.0 + id FROM range(20)")
db.sql("""
    INSERT INTO houses
    SELECT id % 20, 50 + id % 70, 1000 + 30 * (50 + id % 70) - 12 * (1 + id % 20) + id % 7
    FROM range(2000)
""")
db.create_model(
    "prices",
    "SELECT h.price, h.size, a.distance FROM houses h JOIN areas a ON h.area = a.id",
    label="price",
    features=["size", "distance"],
)
model = db.model("prices")


def show(when: str) -> None:
    found = ", ".join(f"{name} {value:.2f}" for name, value in model.coefficients().items())
    print(f"{when:>24}: {found}; r² {model.r2():.4f}")


show("at first")
assert abs(model.coefficients()["size"] - 30) < 0.1
db.sql("UPDATE houses SET price = price * 1.1 WHERE area < 5")
show("some prices rose")
db.sql("DELETE FROM houses WHERE size > 110")
show("large houses were sold")
db.sql("UPDATE areas SET distance = distance / 2")
show("a railway was opened")

new = db.spark.createDataFrame([(80.0, 3.0)], ["size", "distance"])
print(f"a house of 80 m² costs {model.predict(new).first().prediction:,.0f}")
print(db.check("prices"))
db.close()
