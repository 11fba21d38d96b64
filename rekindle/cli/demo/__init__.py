"""The demo: a shop's database, its views, and a day of transactions."""
