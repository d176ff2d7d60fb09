"""The page for people: how many events wait, how long publishing takes, and what the relay says of itself."""
import os
import urllib.error
import urllib.request

RELAY = os.environ.get("POSTROOM_HTTP__LISTEN", "127.0.0.1:7480")
QUERIES = {
    "payments": "select count(*) from payments",
    "pending events": "select count(*) from outbox where published_at is null",
    "pending events that were tried": "select count(*) from outbox where published_at is null and retry_count > 0",
    "seconds from event to Kafka": "select round(avg(extract(epoch from (published_at - created_at))), 2) from outbox"
    " where published_at > now() - interval '1 hour'",
    "notifications": "select count(*) from notifications",
}
METRICS = {
    "oldest event that is due, in seconds": "postroom_oldest_due_age_seconds",
    "dead letters": "postroom_dead_letters",
}
PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>payments</title>
<h1>Payments</h1>
<table>
{rows}
</table>
<p><a href="http://{relay}/">the relay's console</a>, <a href="http://{relay}/metrics">its metrics</a>
"""


def html(connection) -> str:
    numbers = {}
    with connection, connection.cursor() as cursor:
        for name, query in QUERIES.items():
            cursor.execute(query)
            numbers[name] = cursor.fetchone()[0]
    numbers.update(relay())
    rows = "\n".join(f"<tr><td>{name}</td><td>{'–' if value is None else value}</td></tr>" for name, value in numbers.items())
    return PAGE.format(rows=rows, relay=RELAY)


def relay() -> dict:
    """The relay's own numbers; none while it is away."""
    try:
        with urllib.request.urlopen(f"http://{RELAY}/metrics", timeout=1) as answer:
            lines = answer.read().decode().splitlines()
    except (urllib.error.URLError, TimeoutError):
        return dict.fromkeys(METRICS, "the relay does not run")
    found = {line.split("{")[0]: line.rsplit(" ", 1)[1] for line in lines if "{" in line and not line.startswith("#")}
    return {name: found.get(metric) for name, metric in METRICS.items()}
