/** Verifies webhooks as Standard Webhooks 1.0 signs them. */

import { createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from "node:crypto";

/** Largest difference between the time of an attempt and this clock, in seconds, both ways. */
export const TOLERANCE_SECONDS = 300;

/** Reason why a request is not signed with one of the keys. */
export type Reason = "missing" | "timestamp" | "version" | "mismatch" | "too_old" | "too_new";

/** Error for a request that is not signed with one of the keys. */
export class VerifyError extends Error {
  constructor(
    readonly reason: Reason,
    message: string,
  ) {
    super(message);
    this.name = "VerifyError";
  }
}

/** Headers of a request, as Node.js, Express or `fetch` have them. */
export type RequestHeaders = Record<string, string | string[] | undefined> | Headers;

/**
 * Verifies that a request was signed with one of the keys, for this body, at most five minutes ago; throws a
 * {@link VerifyError} otherwise.
 *
 * Keys are secrets (`whsec_…`) or public keys (`whpk_…`); several while keys are rotated. The body is the body as it came, before
 * any parsing. `now` is in seconds since 1970.
 */
export function verify(
  keys: string | readonly string[],
  headers: RequestHeaders,
  body: string | Uint8Array,
  { now = Date.now() / 1000 }: { now?: number } = {},
): void {
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map((name) => header(headers, `webhook-${name}`)) as [
    string,
    string,
    string,
  ];
  // One text for one time: `+1` and `01` would be other signatures of the same request.
  if (!/^(0|-?[1-9][0-9]{0,17})$/.test(timestamp)) {
    throw new VerifyError("timestamp", "webhook-timestamp is not a number of seconds");
  }
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), Buffer.from(body as Uint8Array)]);
  const known = (typeof keys === "string" ? [keys] : keys).map(parse);
  let [tried, fits] = [false, false];
  for (const signature of signatures.split(" ")) {
    const [version, encoded] = [signature.slice(0, Math.max(signature.indexOf(","), 0)), signature.slice(signature.indexOf(",") + 1)];
    for (const key of known.filter((key) => key.version === version)) {
      tried = true;
      if (key.fits(signed, Buffer.from(encoded, "base64"))) fits = true;
    }
  }
  if (!tried) throw new VerifyError("version", "no signature is of the keys' kind");
  if (!fits) throw new VerifyError("mismatch", "no signature fits: another secret, or id, time or body were changed on the way");
  // Only a signed time can be believed.
  const age = Math.round(now - Number(timestamp));
  if (age > TOLERANCE_SECONDS) {
    throw new VerifyError("too_old", `signed ${age} seconds ago; at most ${TOLERANCE_SECONDS} are allowed`);
  }
  if (age < -TOLERANCE_SECONDS) {
    throw new VerifyError("too_new", `signed ${-age} seconds ahead of this clock; at most ${TOLERANCE_SECONDS} are allowed`);
  }
}

function header(headers: RequestHeaders, name: string): string {
  let value: string | string[] | null | undefined;
  if (headers instanceof Headers) {
    value = headers.get(name);
  } else {
    value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  }
  if (typeof value !== "string" || value === "") throw new VerifyError("missing", `there is no ${name} header`);
  return value;
}

interface Key {
  version: string;
  fits(signed: Buffer, signature: Buffer): boolean;
}

/** What stands before the 32 bytes of a public key in its DER form. */
const ED25519_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

function parse(key: string): Key {
  const [, prefix, encoded] = /^(whsec_|whpk_)([A-Za-z0-9+/]+={0,2})$/.exec(key) ?? [];
  if (encoded === undefined) throw new TypeError("a key is whsec_ or whpk_ and base64: `postroom webhook key` makes one");
  const bytes = Buffer.from(encoded, "base64");
  if (prefix === "whsec_") {
    return {
      version: "v1",
      fits(signed, signature) {
        const made = createHmac("sha256", bytes).update(signed).digest();
        return made.length === signature.length && timingSafeEqual(made, signature);
      },
    };
  }
  const key_ = createPublicKey({ key: Buffer.concat([ED25519_PREFIX, bytes]), format: "der", type: "spki" });
  return { version: "v1a", fits: (signed, signature) => verifySignature(null, signed, key_, signature) };
}
