// Signatures of webhooks.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { verify, VerifyError } from "postroom/webhook";

const vectors = JSON.parse(readFileSync(process.env.WEBHOOK_VECTORS));

test("a signature is judged as the relay judges it", () => {
  for (const { name, keys, id, timestamp, signature, body, now, result } of vectors) {
    const headers = { "Webhook-Id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
    for (const given of [headers, new Headers(headers)]) {
      let judged = "ok";
      try {
        verify(keys, given, Buffer.from(body), { now });
      } catch (error) {
        assert(error instanceof VerifyError, error);
        judged = error.reason;
      }
      assert.equal(judged, result, name);
    }
  }
});

test("a key that is none is refused", () => {
  const headers = { "webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,x" };
  assert.throws(() => verify("hunter2", headers, ""), /whsec_/);
});
