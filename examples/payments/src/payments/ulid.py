"""Ids of 26 characters that sort by time: 48 bits of milliseconds, then 80 random bits."""
import secrets
import time

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's


def new() -> str:
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(26)))
