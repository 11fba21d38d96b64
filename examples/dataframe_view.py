"""Views written with the DataFrame API: explode, a join, an aggregate, and a view over a view.

python examples/dataframe_view.py
"""

from pyspark.sql import functions as F

import rekindle

db = rekindle.connect("warehouse")
db.create_table("articles", "id BIGINT, title STRING, tags ARRAY<STRING>", primary_key=["id"])
db.create_table("ratings", "article BIGINT, stars INT")

tagged = db.table("articles").select("id", F.explode("tags").alias("tag"))
rated = tagged.join(db.table("ratings"), F.col("id") == F.col("article"))
db.create_view(
    "stars_by_tag",
    rated.groupBy("tag").agg(F.count("*").alias("ratings"), F.avg("stars").alias("stars")),
)
db.create_view("good_tags", db.table("stars_by_tag").where("stars >= 4").select("tag"))

with db.transaction() as tx:
    tx.insert(
        "articles",
        [
            {"id": 1, "title": "On rings", "tags": ["algebra", "short"]},
            {"id": 2, "title": "On logs", "tags": ["storage"]},
            {"id": 3, "title": "On time", "tags": None},
        ],
    )
    tx.insert("ratings", [(1, 5), (1, 4), (2, 2), (3, 5)])


def good_tags() -> list[str]:
    return sorted(row.tag for row in db.table("good_tags").collect())


print(good_tags())
assert good_tags() == ["algebra", "short"]

with db.transaction() as tx:
    tx.upsert("articles", [(2, "On logs", ["storage", "long"])])
    tx.delete("ratings", [(2, 2), (1, 5)])
    tx.insert("ratings", [(2, 5), (1, 1)])
print(good_tags())
assert good_tags() == ["long", "storage"]

# The definition is kept with the database: it works the same after a restart.
db.close()
db = rekindle.connect("warehouse")
db.sql("DELETE FROM ratings WHERE article = 2")
assert good_tags() == []
for view in db.views:
    print(db.check(view))
db.close()
