"""One connection behind a web server: every request is a thread, every thread its own transaction.

Orders come in by POST, each a transaction of its own; those that arrive together share an epoch.
A transfer reads two accounts and changes both: if somebody else changes one of them meanwhile, the
commit says so and the request begins again.

    python examples/web_application.py
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import rekindle
from rekindle.errors import ConflictError

CLIENTS = 8

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE orders (id BIGINT, cust BIGINT, total DOUBLE, PRIMARY KEY (id))")
db.sql("CREATE TABLE accounts (cust BIGINT, balance BIGINT, PRIMARY KEY (cust))")
db.sql("CREATE MATERIALIZED VIEW spend AS SELECT cust, sum(total) AS t FROM orders GROUP BY cust")
db.sql("CREATE MATERIALIZED VIEW money AS SELECT sum(balance) AS total FROM accounts")
db.sql("INSERT INTO accounts VALUES (1, 100), (2, 100)")


def order(body: dict[str, int]) -> dict[str, object]:
    with db.transaction(timeout=30) as tx:
        tx.insert("orders", [(body["id"], body["cust"], float(body["total"]))])
    return {"epoch": tx.epoch}


def transfer(body: dict[str, int]) -> dict[str, object]:
    tries = 0
    while True:
        tries += 1
        try:
            with db.transaction(timeout=30) as tx:
                have = {row.cust: row.balance for row in db.table("accounts").collect()}
                one, other, amount = body["from"], body["to"], body["amount"]
                tx.upsert("accounts", [(one, have[one] - amount), (other, have[other] + amount)])
            return {"epoch": tx.epoch, "tries": tries}
        except ConflictError:
            continue


ROUTES = {"/orders": order, "/transfers": transfer}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(ROUTES[self.path](body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"


def post(path: str, body: dict[str, int]) -> dict[str, int]:
    with urlopen(Request(address + path, json.dumps(body).encode())) as answer:
        return json.load(answer)


before = db.epoch
with ThreadPoolExecutor(CLIENTS) as clients:
    told = list(
        clients.map(
            lambda i: post("/orders", {"id": i, "cust": i % 3, "total": i})["epoch"], range(80)
        )
    )
print(f"80 orders of {CLIENTS} clients were committed in {db.epoch - before} epochs")
assert db.table("orders").count() == 80
assert max(told) == db.epoch

with ThreadPoolExecutor(CLIENTS) as clients:
    moves = [{"from": 1 + i % 2, "to": 2 - i % 2, "amount": 1 + i} for i in range(8)]
    tries = [answer["tries"] for answer in clients.map(lambda m: post("/transfers", m), moves)]
print(f"8 transfers took {sum(tries)} tries")
assert db.table("money").collect()[0].total == 200, "no money is lost or made"

for view in db.views:
    print(db.check(view))
server.shutdown()
db.close()
