package dev.postroom;

/** Thrown when the relay refuses a worker: a wrong token, or no such route. */
public final class WorkerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    WorkerException(String message) {
        super(message);
    }
}
