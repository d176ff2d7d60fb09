package dev.postroom;

import java.time.Duration;

/** Exception of a handler that says what becomes of the event. After any other exception the route's {@code retry} decides. */
public final class Failure extends Exception {
    private static final long serialVersionUID = 1;

    private final boolean permanent;
    private final Duration retryAfter;

    private Failure(String message, boolean permanent, Duration retryAfter) {
        super(message);
        this.permanent = permanent;
        this.retryAfter = retryAfter;
    }

    /** Creates a failure that makes the event a dead letter. */
    public static Failure permanent(String message) {
        return new Failure(message, true, null);
    }

    /** Creates a failure that asks for another attempt after this time. */
    public static Failure retryAfter(Duration time, String message) {
        return new Failure(message, false, time);
    }

    boolean isPermanent() {
        return permanent;
    }

    Duration retryAfter() {
        return retryAfter;
    }
}
