"""Verifies webhooks as Standard Webhooks 1.0 signs them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping

__all__ = ["TOLERANCE", "VerifyError", "verify"]

#: Largest difference between the time of an attempt and this clock, in seconds, both ways.
TOLERANCE = 300


class VerifyError(Exception):
    """Raised when a request is not signed with one of the keys. ``reason`` is one word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def verify(keys: str | Iterable[str], headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> None:
    """Verifies that a request was signed with one of the keys, for this body, at most five minutes ago.

    ``keys`` are secrets (``whsec_…``) or public keys (``whpk_…``, which need the extra ``ed25519``); several while keys are
    rotated. ``body`` is the body as it came, before any parsing. Raises :class:`VerifyError`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (_header(given, name) for name in ("id", "timestamp", "signature"))
    digits = timestamp.removeprefix("-")
    # One text for one time: `+1` and `01` would be other signatures of the same request.
    if not digits.isascii() or not digits.isdigit() or str(int(digits[:20])) != digits or len(digits) > 18:
        raise VerifyError("timestamp", "webhook-timestamp is not a number of seconds")
    signed = f"{id}.{timestamp}.".encode() + body
    known = [_key(key) for key in ([keys] if isinstance(keys, str) else keys)]
    tried = fits = False
    for version, _, text in (one.partition(",") for one in signatures.split(" ")):
        for of, key in known:
            if of == version:
                tried = True
                fits |= _fits(version, key, text, signed)
    if not tried:
        raise VerifyError("version", "no signature is of the keys' kind")
    if not fits:
        raise VerifyError("mismatch", "no signature fits: another secret, or id, time or body were changed on the way")
    # Only a signed time can be believed.
    age = (time.time() if now is None else now) - int(timestamp)
    if age > TOLERANCE:
        raise VerifyError("too_old", f"signed {age:.0f} seconds ago; at most {TOLERANCE} are allowed")
    if age < -TOLERANCE:
        raise VerifyError("too_new", f"signed {-age:.0f} seconds ahead of this clock; at most {TOLERANCE} are allowed")


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(f"webhook-{name}", "")
    if not value:
        raise VerifyError("missing", f"there is no webhook-{name} header")
    return value


def _key(text: str) -> tuple[str, bytes]:
    for prefix, version in (("whsec_", "v1"), ("whpk_", "v1a")):
        if text.startswith(prefix):
            try:
                return version, base64.b64decode(text.removeprefix(prefix), validate=True)
            except binascii.Error:
                break
    raise ValueError("a key is whsec_ or whpk_ and base64: `postroom webhook key` makes one")


def _fits(version: str, key: bytes, text: str, signed: bytes) -> bool:
    try:
        given = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    if version == "v1":
        return hmac.compare_digest(hmac.new(key, signed, hashlib.sha256).digest(), given)
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(given, signed)
    except InvalidSignature:
        return False
    return True
