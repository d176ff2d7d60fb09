package dev.postroom;

/** Thrown when a request is not signed with one of the keys. */
public final class VerifyException extends Exception {
    private static final long serialVersionUID = 1;

    /** Why a request is refused. */
    public enum Reason {
        /** A header is not there. */
        MISSING,
        /** The time is no number. */
        TIMESTAMP,
        /** No signature is of the keys' kind. */
        VERSION,
        /** No signature was made for this request with one of the keys. */
        MISMATCH,
        /** It was signed too long ago, and may be a replay. */
        TOO_OLD,
        /** It was signed too far in the future. */
        TOO_NEW
    }

    private final Reason reason;

    VerifyException(Reason reason, String message) {
        super(message);
        this.reason = reason;
    }

    /** Returns the reason. */
    public Reason reason() {
        return reason;
    }
}
