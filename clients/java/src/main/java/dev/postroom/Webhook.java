package dev.postroom;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies webhooks as Standard Webhooks 1.0 signs them. */
public final class Webhook {
    /** Largest difference between the time of an attempt and this clock, both ways. */
    public static final Duration TOLERANCE = Duration.ofMinutes(5);

    /** What stands before the 32 bytes of a public key in its DER form. */
    private static final byte[] ED25519_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

    private Webhook() {}

    /**
     * Verifies that a request was signed with one of the keys, for this body, at most five minutes ago.
     *
     * @param keys secrets (whsec_…) or public keys (whpk_…); several while keys are rotated
     * @param header returns the value of a header, or null: {@code request::getHeader}
     * @param body the body as it came, before any parsing
     * @throws VerifyException if it was not
     */
    public static void verify(Collection<String> keys, UnaryOperator<String> header, byte[] body) throws VerifyException {
        verify(keys, header, body, Instant.now());
    }

    static void verify(Collection<String> keys, UnaryOperator<String> header, byte[] body, Instant now) throws VerifyException {
        String id = given(header, "webhook-id");
        String timestamp = given(header, "webhook-timestamp");
        String signatures = given(header, "webhook-signature");
        // One text for one time: `+1` and `01` would be other signatures of the same request.
        if (!timestamp.matches("0|-?[1-9][0-9]{0,17}")) {
            throw new VerifyException(VerifyException.Reason.TIMESTAMP, "webhook-timestamp is not a number of seconds");
        }
        byte[] start = (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8);
        byte[] signed = new byte[start.length + body.length];
        System.arraycopy(start, 0, signed, 0, start.length);
        System.arraycopy(body, 0, signed, start.length, body.length);
        List<Key> known = keys.stream().map(Webhook::parse).toList();
        boolean tried = false;
        boolean fits = false;
        for (String signature : signatures.split(" ")) {
            int comma = Math.max(signature.indexOf(','), 0);
            for (Key key : known) {
                if (key.version().equals(signature.substring(0, comma))) {
                    tried = true;
                    fits |= fits(key, signed, signature.substring(comma + 1));
                }
            }
        }
        if (!tried) {
            throw new VerifyException(VerifyException.Reason.VERSION, "no signature is of the keys' kind");
        }
        if (!fits) {
            throw new VerifyException(VerifyException.Reason.MISMATCH,
                    "no signature fits: another secret, or id, time or body were changed on the way");
        }
        // Only a signed time can be believed.
        long age = now.getEpochSecond() - Long.parseLong(timestamp);
        if (age > TOLERANCE.toSeconds()) {
            throw new VerifyException(VerifyException.Reason.TOO_OLD, "signed " + age + " seconds ago; at most 300 are allowed");
        }
        if (age < -TOLERANCE.toSeconds()) {
            throw new VerifyException(VerifyException.Reason.TOO_NEW, "signed " + -age + " seconds ahead of this clock; at most 300 are allowed");
        }
    }

    private record Key(String version, byte[] bytes) {}

    private static String given(UnaryOperator<String> header, String name) throws VerifyException {
        String value = header.apply(name);
        if (value == null || value.isEmpty()) {
            throw new VerifyException(VerifyException.Reason.MISSING, "there is no " + name + " header");
        }
        return value;
    }

    private static Key parse(String text) {
        try {
            if (text.startsWith("whsec_") && text.length() > 6) {
                return new Key("v1", Base64.getDecoder().decode(text.substring(6)));
            }
            if (text.startsWith("whpk_")) {
                byte[] bytes = Base64.getDecoder().decode(text.substring(5));
                if (bytes.length == 32) {
                    return new Key("v1a", bytes);
                }
            }
        } catch (IllegalArgumentException e) {
            // It would quote the key.
        }
        throw new IllegalArgumentException("a key is whsec_ or whpk_ and base64: `postroom webhook key` makes one");
    }

    private static boolean fits(Key key, byte[] signed, String encoded) {
        byte[] signature;
        try {
            signature = Base64.getDecoder().decode(encoded);
        } catch (IllegalArgumentException e) {
            return false;
        }
        try {
            if (key.version().equals("v1")) {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(key.bytes(), "HmacSHA256"));
                return MessageDigest.isEqual(mac.doFinal(signed), signature);
            }
            byte[] der = new byte[ED25519_PREFIX.length + key.bytes().length];
            System.arraycopy(ED25519_PREFIX, 0, der, 0, ED25519_PREFIX.length);
            System.arraycopy(key.bytes(), 0, der, ED25519_PREFIX.length, key.bytes().length);
            PublicKey publicKey = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(der));
            Signature verifier = Signature.getInstance("Ed25519");
            verifier.initVerify(publicKey);
            verifier.update(signed);
            return verifier.verify(signature);
        } catch (GeneralSecurityException e) {
            return false;
        }
    }
}
