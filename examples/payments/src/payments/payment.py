"""A payment: its row, its ledger entries and its event are one commit. Nothing here knows of Kafka."""
import json

from payments import outbox, ulid

MESSAGES = {
    "INVALID_AMOUNT": "The amount is not positive",
    "SAME_ACCOUNT": "Payer and payee are the same account",
    "ACCOUNT_NOT_FOUND": "Account not found",
    "CURRENCY_MISMATCH": "An account is in another currency",
    "RATE_LIMITED": "Too many payments within a minute",
    "INSUFFICIENT_FUNDS": "Insufficient funds",
}


class Conflict(Exception):
    """The idempotency key was used for another request."""


def pay(connection, key: str | None, request: dict, recent_max: int) -> tuple[str, str | None]:
    """Makes a payment, or finds the one that was made with this key: its id, and why it was declined."""
    with connection, connection.cursor() as cursor:
        payment_id = ulid.new()
        body = json.dumps(request)
        # A second request with this key waits here until the first has an answer.
        insert = (
            "insert into payments (id, idempotency_key, request, payer_account_id) values (%s, %s, %s, %s)"
            " on conflict (idempotency_key) do nothing"
        )
        cursor.execute(insert, (payment_id, key, body, request["payer_account_id"]))
        if cursor.rowcount == 0:
            find = "select id, request = %s::jsonb, error_code from payments where idempotency_key = %s"
            cursor.execute(find, (body, key))
            payment_id, is_same, error = cursor.fetchone()
            if not is_same:
                raise Conflict
            return payment_id, error
        error = decline(cursor, request, recent_max)
        if error is None:
            move(cursor, payment_id, request, "payment")
            outbox.append(cursor, "PaymentAuthorized", payment_id, request)
        else:
            cursor.execute("update payments set error_code = %s where id = %s", (error, payment_id))
            reason = {"error_code": error, "error_message": MESSAGES[error]}
            outbox.append(cursor, "PaymentDeclined", payment_id, {**request, **reason})
        return payment_id, error


def refund(connection, payment_id: str) -> bool:
    """Gives the money of an authorized payment back, once."""
    with connection, connection.cursor() as cursor:
        update = (
            "update payments set refunded_at = now()"
            " where id = %s and error_code is null and refunded_at is null returning request"
        )
        cursor.execute(update, (payment_id,))
        row = cursor.fetchone()
        if row is None:
            return False
        accounts(cursor, row[0])
        move(cursor, payment_id, {**row[0], "amount_cents": -row[0]["amount_cents"]}, "refund")
        outbox.append(cursor, "PaymentRefunded", payment_id, row[0])
        return True


def decline(cursor, request: dict, recent_max: int) -> str | None:
    """Why the payment is declined. The order of the questions is the order of the answers."""
    found = accounts(cursor, request)
    if request["amount_cents"] < 1:
        return "INVALID_AMOUNT"
    if request["payer_account_id"] == request["payee_account_id"]:
        return "SAME_ACCOUNT"
    if len(found) < 2:
        return "ACCOUNT_NOT_FOUND"
    if any(currency != request["currency"] for currency, _ in found.values()):
        return "CURRENCY_MISMATCH"
    count = (
        "select count(*) - 1 from payments where payer_account_id = %s"
        " and created_at > now() - interval '1 minute' and error_code is distinct from 'RATE_LIMITED'"
    )
    cursor.execute(count, (request["payer_account_id"],))
    if cursor.fetchone()[0] >= recent_max:
        return "RATE_LIMITED"
    return "INSUFFICIENT_FUNDS" if found[request["payer_account_id"]][1] < request["amount_cents"] else None


def accounts(cursor, request: dict) -> dict:
    """Locks both accounts, always in the same order, so that what is decided still holds at the commit."""
    lock = "select id, currency, balance_cents from accounts where id in (%s, %s) order by id for update"
    cursor.execute(lock, (request["payer_account_id"], request["payee_account_id"]))
    return {account: (currency, balance) for account, currency, balance in cursor.fetchall()}


def move(cursor, payment_id: str, request: dict, reason: str) -> None:
    cents = request["amount_cents"]
    for account, change in ((request["payer_account_id"], -cents), (request["payee_account_id"], cents)):
        cursor.execute("insert into ledger_entries values (%s, %s, %s, %s)", (payment_id, account, change, reason))
        cursor.execute("update accounts set balance_cents = balance_cents + %s where id = %s", (change, account))
