package dev.postroom;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Worker for a route of kind {@code pull}: leases events over HTTP, runs a handler for each, one after the other, and settles the results.
 * Run several for more at once.
 */
public final class Worker implements Runnable, AutoCloseable {
    /** Results wait at most this long for others: the next event of a key comes after the one before is settled. */
    private static final Duration SETTLE_AFTER = Duration.ofSeconds(1);
    /** First and longest pause while the relay is away. */
    private static final Duration PAUSE = Duration.ofMillis(200);
    private static final Duration PAUSE_MAX = Duration.ofSeconds(10);
    private static final Logger LOG = System.getLogger("dev.postroom");

    /** Work on an event. The event is delivered when it returns. */
    @FunctionalInterface
    public interface Handler {
        /** Handles an event. */
        void handle(Incoming event) throws Exception;
    }

    private final String url;
    private final String token;
    private final Handler handler;
    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(10)).build();
    private final CountDownLatch stopping = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean running;
    private boolean interrupted;
    private int limit = 20;
    private Duration lease = Duration.ofSeconds(30);
    private Duration waitMax = Duration.ofSeconds(5);

    /** Creates a worker of this route; {@link #run} runs it. */
    public Worker(String url, String route, String token, Handler handler) {
        String escaped = URLEncoder.encode(route, StandardCharsets.UTF_8).replace("+", "%20");
        this.url = url.replaceAll("/+$", "") + "/api/v1/pull/" + escaped;
        this.token = token;
        this.handler = handler;
    }

    /** Sets the maximum number of events at once; 20 by default. */
    public Worker limit(int events) {
        this.limit = events;
        return this;
    }

    /** Sets the time that a whole batch of events may take; 30 s by default. An event whose lease has ended before its turn is not begun. */
    public Worker lease(Duration time) {
        this.lease = time;
        return this;
    }

    /** Sets how long the relay waits for the first event, and so how long an idle worker takes to stop; 5 s by default. */
    public Worker waitMax(Duration time) {
        this.waitMax = time;
        return this;
    }

    /** Makes the end of the JVM, by SIGTERM for instance, wait until {@link #run} has settled the events in hand. */
    public Worker closeOnShutdown() {
        Runtime.getRuntime().addShutdownHook(new Thread(this::close, "postroom-shutdown"));
        return this;
    }

    /** Lets {@link #run} return when the events in hand are settled. It may be called from any thread, and twice. */
    public void stop() {
        stopping.countDown();
    }

    /** Stops the worker and waits until {@link #run} has returned. Not for a handler, which it would wait for. */
    @Override
    public void close() {
        stop();
        try {
            if (running) {
                ended.await();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Works until {@link #stop} is called or the thread is interrupted. Then finishes the events in hand, settles them, and leases no more.
     * Waits while the relay is away. It can be called once.
     *
     * @throws WorkerException if the relay refuses the worker
     */
    @Override
    public void run() {
        running = true;
        try {
            work();
        } finally {
            ended.countDown();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void work() {
        String asked = String.format("{\"limit\":%d,\"wait\":%s,\"lease\":%s}", limit, millis(waitMax), millis(lease));
        Duration pause = PAUSE;
        while (stopping.getCount() > 0) {
            long ends = System.nanoTime() + lease.toNanos();
            try {
                List<Map<String, String>> events = Json.elements(post("", asked)).stream().map(Json::members).toList();
                pause = PAUSE;
                handle(events, ends);
            } catch (IOException | IllegalArgumentException away) {
                LOG.log(Level.WARNING, "the relay is away, again in {0} ms: {1}", pause.toMillis(), away.getMessage());
                pause(pause);
                pause = longer(pause);
            }
        }
    }

    private void handle(List<Map<String, String>> events, long ends) {
        List<String> results = new ArrayList<>();
        long settled = System.nanoTime();
        for (Map<String, String> event : events) {
            if (System.nanoTime() >= ends) {
                LOG.log(Level.WARNING, "leases ended before their turn: lower the limit, or raise the lease");
                break;
            }
            results.add("{\"lease\":" + event.get("lease") + "," + handle(incoming(event)) + "}");
            if (System.nanoTime() - settled >= SETTLE_AFTER.toNanos()) {
                settle(results, ends);
                results.clear();
                settled = System.nanoTime();
            }
        }
        settle(results, ends);
    }

    private static Incoming incoming(Map<String, String> event) {
        String envelope = event.get("envelope");
        Map<String, String> parts = envelope.startsWith("{") ? Json.members(envelope) : Map.of();
        String key = parts.getOrDefault("partitionkey", "null");
        return new Incoming(Json.string(event.get("id")), Json.string(event.get("type")), Integer.parseInt(event.get("attempt")),
                Json.string(event.get("route")), key.startsWith("\"") ? Json.string(key) : null, parts.get("data"), envelope);
    }

    /** Returns what came of it, as members of a result. */
    private String handle(Incoming event) {
        try {
            handler.handle(event);
            return "\"ok\":true";
        } catch (Failure failure) {
            LOG.log(Level.WARNING, "event {0} failed: {1}", event.id(), failure.getMessage());
            String retry = failure.retryAfter() == null ? "" : ",\"retry_after\":" + millis(failure.retryAfter());
            return "\"error\":" + Json.quote(String.valueOf(failure.getMessage())) + ",\"permanent\":" + failure.isPermanent() + retry;
        } catch (Exception | StackOverflowError error) {
            if (error instanceof InterruptedException) {
                interrupt();
            }
            LOG.log(Level.WARNING, "event " + event.id() + " failed", error);
            return "\"error\":" + Json.quote(error.toString());
        }
    }

    private void settle(List<String> results, long ends) {
        if (results.isEmpty()) {
            return;
        }
        String body = "{\"results\":[" + String.join(",", results) + "]}";
        for (Duration pause = PAUSE;; pause = longer(pause)) {
            try {
                List<String> unknown = Json.elements(Json.members(post("/settle", body)).getOrDefault("unknown", "[]"));
                if (!unknown.isEmpty()) {
                    LOG.log(Level.WARNING, "{0} events came too late to be settled and may come again", unknown.size());
                }
                return;
            } catch (IOException | IllegalArgumentException away) {
                if (System.nanoTime() + pause.toNanos() >= ends) {
                    LOG.log(Level.WARNING, "{0} events could not be settled and will come again: {1}", results.size(), away.getMessage());
                    return;
                }
                sleep(pause);
            }
        }
    }

    /** Asks the relay; an {@code IOException} says that it is away. */
    private String post(String path, String body) throws IOException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .timeout(waitMax.plusSeconds(10))
                .header("authorization", "Bearer " + token)
                .header("content-type", "application/json")
                .POST(BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> response;
        try {
            response = client.send(request, BodyHandlers.ofString());
        } catch (InterruptedException e) {
            interrupt();
            throw new IOException("interrupted", e);
        }
        int status = response.statusCode();
        if (status == 200) {
            return response.body();
        }
        String detail = status + ": " + response.body().substring(0, Math.min(response.body().length(), 1000));
        if (status == 408 || status == 429 || status >= 500) {
            throw new IOException(detail);
        }
        throw new WorkerException("the relay refuses the worker with " + detail);
    }

    private void interrupt() {
        interrupted = true;
        stop();
    }

    private void pause(Duration time) {
        try {
            stopping.await(time.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            interrupt();
        }
    }

    private void sleep(Duration time) {
        try {
            Thread.sleep(time.toMillis());
        } catch (InterruptedException e) {
            interrupt();
        }
    }

    private static Duration longer(Duration pause) {
        Duration longer = pause.multipliedBy(2);
        return longer.compareTo(PAUSE_MAX) > 0 ? PAUSE_MAX : longer;
    }

    private static String millis(Duration time) {
        return "\"" + time.toMillis() + "ms\"";
    }
}
