package dev.postroom;

import static dev.postroom.testing.Appended.assertAppended;
import static dev.postroom.testing.Appended.assertNotAppended;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class OutboxTest {
    private final Outbox outbox = new Outbox();
    private Connection connection;

    @BeforeEach
    void begin() throws SQLException {
        connection = Database.begin();
    }

    @AfterEach
    void rollback() throws SQLException {
        connection.rollback();
        connection.close();
    }

    @Test
    void theEventIsThereIfAndOnlyIfTheTransactionCommits() throws SQLException {
        String gone = outbox.append(connection, Event.of("shop.opened"));
        connection.rollback();
        String kept = outbox.append(connection, Event.of("shop.opened").key("shop-1").json("{\"name\": \"Ä\"}"));
        assertTrue(outbox.accept(connection, "books", kept));
        assertFalse(outbox.accept(connection, "books", kept));
        connection.commit();
        assertNull(Database.payload(connection, gone));
        assertEquals("{\"name\": \"Ä\"}", Database.payload(connection, kept));
    }

    @Test
    void aConnectionThatCommitsByItselfIsRefused() throws SQLException {
        try (Connection alone = DriverManager.getConnection(Database.URL)) {
            assertThrows(IllegalStateException.class, () -> outbox.append(alone, Event.of("shop.opened")));
            assertThrows(IllegalStateException.class, () -> outbox.accept(alone, "books", "e-1"));
        }
    }

    @Test
    void everyFieldArrives() throws SQLException {
        Instant time = Instant.parse("2026-11-01T09:30:00.123Z");
        Event event = Event.of("shop.opened").key("k").json("{\"a\": 1}").id("e-1").aggregate("shop", "shop-1").tenant("acme")
                .headers(Map.of("traceparent", "00-1")).attributes("{\"station_id\": 12}").correlationId("request-31").causationId("e-0")
                .schemaVersion(2).occurredAt(time).availableAt(time);
        for (int way = 0; way < 3; way++) {
            String id = switch (way) {
                case 0 -> outbox.append(connection, event);
                case 1 -> outbox.appendOnce(connection, "request-31", event);
                default -> outbox.appendMany(connection, List.of(event)).get(0);
            };
            String all = Database.column(connection, """
                    concat_ws(' ', type, key, convert_from(payload, 'UTF8'), aggregate_type, aggregate_id, tenant, headers, attributes,
                      correlation_id, causation_id, schema_version, occurred_at = '2026-11-01T09:30:00.123Z',
                      available_at = '2026-11-01T09:30:00.123Z')""", id);
            String expected = "shop.opened k {\"a\": 1} shop shop-1 acme {\"traceparent\": \"00-1\"} {\"station_id\": 12} request-31 e-0 2 t t";
            assertEquals(expected, all);
            assertEquals("e-1", id);
            connection.rollback();
        }
    }

    @Test
    void payloadsAreKeptByteForByte() throws SQLException {
        String text = "{\"b\":1,  \"a\" :\"é\"}";
        List<String> many = outbox.appendMany(connection, List.of(Event.of("a").json(text), Event.of("a")));
        assertEquals(text, Database.payload(connection, many.get(0)));
        assertEquals("null", Database.payload(connection, many.get(1)));
        assertEquals(text, Database.payload(connection, outbox.append(connection, Event.of("a").json(text))));
        Event pdf = Event.of("label.printed").bytes("%PDF".getBytes(StandardCharsets.US_ASCII), "application/pdf");
        assertEquals("%PDF", Database.payload(connection, outbox.append(connection, pdf)));
        assertThrows(IllegalArgumentException.class, () -> outbox.appendMany(connection, List.of(pdf)));
        assertThrows(IllegalArgumentException.class, () -> outbox.appendOnce(connection, "request-1", pdf));
    }

    @Test
    void anIdempotencyKeyAppendsOnce() throws SQLException {
        assertNotNull(outbox.appendOnce(connection, "request-1", Event.of("a")));
        assertNull(outbox.appendOnce(connection, "request-1", Event.of("a")));
    }

    @Test
    void mistakesAreNamed() {
        assertThrows(IllegalArgumentException.class, () -> new Outbox("a\"b"));
        // A payload that is not one JSON value cannot smuggle an event in.
        List<Event> smuggled = List.of(Event.of("a").json("1}, {\"type\": \"b\""));
        assertThrows(IllegalArgumentException.class, () -> outbox.appendMany(connection, smuggled));
        SQLException refused = assertThrows(SQLException.class, () -> outbox.append(connection, Event.of("a").key("a\nb")));
        assertEquals("22023", refused.getSQLState());
    }

    @Test
    void assertionsSeeOnlyTheOpenTransactionAndShowNoPayload() throws SQLException {
        assertNotAppended(connection, "shop.opened");
        outbox.append(connection, Event.of("shop.moved").key("shop-1").json("{\"secret\": 1, \"deep\": {\"x\": 1, \"y\": 2}}"));
        assertAppended(connection, "shop.moved");
        assertEquals("shop-1", assertAppended(connection, "shop.moved", "shop-1", "{\"deep\": {\"x\": 1}}").key());
        String message = "no such \"shop.moved\" was appended; there is shop.moved (key shop-1)";
        for (String[] wanted : new String[][] {{"shop-2", null}, {null, "{\"secret\": 2}"}}) {
            AssertionError error = assertThrows(AssertionError.class, () -> assertAppended(connection, "shop.moved", wanted[0], wanted[1]));
            assertEquals(message, error.getMessage());
        }
        assertThrows(AssertionError.class, () -> assertNotAppended(connection, "shop.moved"));
    }
}
