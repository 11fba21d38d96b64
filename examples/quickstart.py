"""Tables, a view, and three ways to change the tables; the view follows each of them.

python examples/quickstart.py
"""

import rekindle

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, total DOUBLE, PRIMARY KEY (id))")
db.sql("CREATE TABLE customers (id BIGINT, region STRING, PRIMARY KEY (id))")
db.sql("""
    CREATE MATERIALIZED VIEW spend AS
    SELECT region, count(*) AS orders, sum(total) AS total
    FROM orders JOIN customers ON orders.customer = customers.id
    GROUP BY region
""")


def spend() -> dict[str, tuple[int, float]]:
    """The view as it is now."""
    return {row.region: (row.orders, row.total) for row in db.table("spend").collect()}


db.sql("INSERT INTO customers VALUES (7, 'north'), (8, 'south')")
db.sql("INSERT INTO orders VALUES (1, 7, 9.5), (2, 7, 1.0), (3, 8, 2.5)")
print("after two inserts     ", spend())
assert spend() == {"north": (2, 10.5), "south": (1, 2.5)}

with db.transaction() as tx:
    tx.insert("orders", [(4, 8, 4.0), (5, 8, 0.5)])
    tx.delete("orders", [(2, 7, 1.0)])
    tx.upsert("customers", [(7, "south")])
print("after a transaction   ", spend())
assert spend() == {"south": (4, 16.5)}

db.sql("UPDATE orders SET total = total * 2 WHERE customer = 7")
print("after an UPDATE       ", spend())
assert spend() == {"south": (4, 26.0)}

try:
    with db.transaction() as tx:
        tx.insert("orders", [(6, 7, 1.0)])
        tx.insert("orders", [(1, 7, 1.0)])
except rekindle.RekindleError as error:
    print("refused, as it should:", error.message)
assert spend() == {"south": (4, 26.0)}

print(db.check("spend"))
db.close()
