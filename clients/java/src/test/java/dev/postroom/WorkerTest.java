package dev.postroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class WorkerTest {
    private static final String RELAY = System.getenv("WORKER_URL");
    private static final String TOKEN = System.getenv("WORKER_TOKEN");

    private Worker worker;

    @Test
    void eventsAreSettledAsTheHandlerEnds() throws Exception {
        try (Connection connection = Database.begin()) {
            for (String name : List.of("ok", "retried", "bad")) {
                Event event = Event.of("order.noted").id("order-" + name).key("key-" + name).json("\"" + name + "\"");
                new Outbox().append(connection, event);
            }
            connection.commit();
        }
        List<String> seen = new ArrayList<>();
        worker = new Worker(RELAY, "mailer", TOKEN, event -> {
            seen.add(event.id() + " " + event.key() + " " + event.data() + " " + event.attempt());
            if (seen.size() == 4) {
                worker.stop();
            }
            if (event.id().equals("order-bad")) {
                throw Failure.permanent("no such customer");
            }
            if (event.id().equals("order-retried") && event.attempt() == 1) {
                throw Failure.retryAfter(Duration.ofMillis(10), "mailbox is full");
            }
        });
        worker.run();
        Collections.sort(seen);
        assertEquals(List.of("order-bad key-bad \"bad\" 1", "order-ok key-ok \"ok\" 1", "order-retried key-retried \"retried\" 1",
                "order-retried key-retried \"retried\" 2"), seen);
    }

    @Test
    void aWrongTokenAndAnUnknownRouteEndTheWorker() {
        for (String[] wrong : new String[][] {{"mailer", "wrong", "401"}, {"nobody", TOKEN, "404"}}) {
            Worker worker = new Worker(RELAY, wrong[0], wrong[1], event -> {}).waitMax(Duration.ofMillis(10));
            assertTrue(assertThrows(WorkerException.class, worker::run).getMessage().contains(wrong[2]));
        }
    }

    private record Answer(int status, String body) {}

    /** Leased events, with fields that this version does not know. */
    private static Answer leased(String... names) {
        return new Answer(200, Arrays.stream(names).map(name -> """
                {"lease": "lease %1$s", "id": "%1$s", "type": "t", "attempt": 1, "route": "r", "envelope": {}, "processed": [], "other": "new"}"""
                .formatted(name)).collect(Collectors.joining(",", "[", "]")));
    }

    /** Runs a worker against a stand-in that does what a relay rarely does; returns the requests. */
    private List<String> against(Duration lease, Worker.Handler handler, Answer... answers) throws Exception {
        List<String> requests = Collections.synchronizedList(new ArrayList<>());
        Queue<Answer> left = new ArrayDeque<>(List.of(answers));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/api/v1/pull/r", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            requests.add(exchange.getRequestURI().getPath().replace("/api/v1/pull/r", "") + " " + body);
            // A worker that asks for more than was meant fails, rather than for ever.
            Answer answer = left.isEmpty() ? new Answer(404, "{}") : left.remove();
            byte[] bytes = answer.body.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(answer.status, bytes.length == 0 ? -1 : bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
        worker = new Worker("http://127.0.0.1:" + server.getAddress().getPort() + "/", "r", "t", handler).lease(lease);
        worker.run();
        server.stop(0);
        return requests;
    }

    @Test
    void aWorkerWaitsForARelayThatIsAwayAndStopsWhenWhatItHasIsSettled() throws Exception {
        List<String> handled = new ArrayList<>();
        Worker.Handler handler = event -> {
            worker.stop(); // with `a` in hand and `b` leased
            handled.add(event.id());
        };
        List<String> requests = against(Duration.ofSeconds(30), handler, new Answer(503, ""), leased("a", "b"), new Answer(502, ""),
                new Answer(200, "{\"settled\": 2, \"unknown\": [\"lease b\"]}"));
        assertEquals(List.of("a", "b"), handled);
        String asked = " {\"limit\":20,\"wait\":\"5000ms\",\"lease\":\"30000ms\"}";
        String results = "/settle {\"results\":[{\"lease\":\"lease a\",\"ok\":true},{\"lease\":\"lease b\",\"ok\":true}]}";
        assertEquals(List.of(asked, asked, results, results), requests);
    }

    @Test
    void anEventWhoseLeaseHasEndedIsLeftToTheNextWorker() throws Exception {
        List<String> handled = new ArrayList<>();
        Worker.Handler handler = event -> {
            worker.stop();
            handled.add(event.id());
            Thread.sleep(2_100); // longer than the lease, which leaves a slow machine time to ask for it
        };
        against(Duration.ofMillis(2_000), handler, leased("a", "b"), new Answer(200, "{\"settled\": 0, \"unknown\": [\"lease a\"]}"));
        assertEquals(List.of("a"), handled);
    }

    @Test
    void anExceptionOfTheHandlerIsRetriedByTheRoute() throws Exception {
        List<String> requests = against(Duration.ofSeconds(30), event -> {
            worker.stop();
            throw new IllegalStateException("no email");
        }, leased("a"), new Answer(200, "{\"settled\": 1, \"unknown\": []}"));
        String error = "{\"lease\":\"lease a\",\"error\":\"java.lang.IllegalStateException: no email\"}";
        assertEquals("/settle {\"results\":[" + error + "]}", requests.get(1));
    }

    @Test
    void anInterruptStopsTheWorkerAfterWhatItHasIsSettled() throws Exception {
        List<String> requests = against(Duration.ofSeconds(30), event -> {
            Thread.currentThread().interrupt();
            Thread.sleep(1);
        }, leased("a"), new Answer(200, "{\"settled\": 1, \"unknown\": []}"));
        assertTrue(Thread.interrupted());
        assertEquals(2, requests.size());
        assertFalse(Thread.interrupted());
        worker.close(); // at once: it has ended
    }
}
