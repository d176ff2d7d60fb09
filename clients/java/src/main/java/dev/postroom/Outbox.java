package dev.postroom;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Appends events in your transaction, and accepts them in the transaction of their effect. Commit and rollback are yours; a connection
 * in autocommit mode is refused. Threads may share an outbox.
 */
public final class Outbox {
    /** Parameters of append, and their types. */
    static final Map<String, String> PARAMETERS = new LinkedHashMap<>();
    /** Values of parameters that an event leaves out; null otherwise. */
    static final Map<String, String> DEFAULTS =
            Map.of("payload", "null", "headers", "{}", "attributes", "{}", "schema_version", "1");

    static {
        for (String name : List.of("type", "key", "id", "aggregate_type", "aggregate_id", "tenant", "correlation_id", "causation_id")) {
            PARAMETERS.put(name, "text");
        }
        for (String name : List.of("headers", "attributes")) {
            PARAMETERS.put(name, "jsonb");
        }
        for (String name : List.of("occurred_at", "available_at")) {
            PARAMETERS.put(name, "timestamptz");
        }
        PARAMETERS.put("schema_version", "int");
        PARAMETERS.put("payload", "json");
    }

    private final String schema;

    /** Creates the outbox of the schema {@code postroom}. */
    public Outbox() {
        this("postroom");
    }

    /** Creates the outbox of another schema. */
    public Outbox(String schema) {
        if (!schema.matches("[A-Za-z_][A-Za-z0-9_]*")) {
            throw new IllegalArgumentException("\"" + schema + "\" is no name of a schema: use letters, digits and _");
        }
        this.schema = "\"" + schema + "\"";
    }

    /** Appends an event in the connection's transaction and returns its id. It is delivered if and only if you commit. */
    public String append(Connection connection, Event event) throws SQLException {
        if (event.isJson()) {
            return strings(connection, "append", Map.of(), event).get(0);
        }
        return strings(connection, "append_bytes", Map.of("content_type", event.field("content_type")), event).get(0);
    }

    /** Appends an event unless this idempotency key was used before; returns its id, or null if it was. */
    public String appendOnce(Connection connection, String idempotencyKey, Event event) throws SQLException {
        jsonOnly("appendOnce", event);
        return strings(connection, "append_once", Map.of("idempotency_key", idempotencyKey), event).get(0);
    }

    /** Appends several events in this order, with one statement; returns their ids. */
    public List<String> appendMany(Connection connection, List<Event> events) throws SQLException {
        events.forEach(event -> jsonOnly("appendMany", event));
        String list = events.stream().map(Event::listed).collect(Collectors.joining(",", "[", "]"));
        return strings(connection, "select " + schema + ".append_many(cast(? as json))", List.of(list));
    }

    /**
     * Records in the connection's transaction that this consumer processes this event. Returns true if the event is new to the
     * consumer, and false if it was accepted before: then there is nothing to do.
     */
    public boolean accept(Connection connection, String consumer, String id) throws SQLException {
        String sql = "select " + schema + ".accept(cast(? as text), cast(? as text))";
        return "t".equals(strings(connection, sql, List.of(consumer, id)).get(0));
    }

    /** Returns the schema as an identifier. */
    public String schema() {
        return schema;
    }

    /** Refuses a connection that commits every statement by itself. */
    public static void refuseAutoCommit(Connection connection) throws SQLException {
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("the connection is in autocommit mode: begin a transaction, so that event and data commit together");
        }
    }

    static boolean isJson(String parameter) {
        return PARAMETERS.get(parameter).startsWith("json");
    }

    private static void jsonOnly(String method, Event event) {
        if (!event.isJson()) {
            throw new IllegalArgumentException(method + " takes JSON payloads only: append the event by itself");
        }
    }

    private List<String> strings(Connection connection, String function, Map<String, Object> first, Event event) throws SQLException {
        List<String> arguments = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        first.forEach((name, value) -> {
            arguments.add(name + " => cast(? as text)");
            values.add(value);
        });
        PARAMETERS.forEach((name, type) -> {
            Object value = event.field(name);
            arguments.add(name + " => cast(? as " + (value instanceof byte[] ? "bytea" : type) + ")");
            values.add(value);
        });
        return strings(connection, "select " + schema + "." + function + "(" + String.join(", ", arguments) + ")", values);
    }

    private static List<String> strings(Connection connection, String sql, List<Object> values) throws SQLException {
        refuseAutoCommit(connection);
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int at = 0; at < values.size(); at++) {
                if (values.get(at) instanceof byte[] bytes) {
                    statement.setBytes(at + 1, bytes);
                } else {
                    statement.setString(at + 1, (String) values.get(at));
                }
            }
            List<String> results = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    results.add(rows.getString(1));
                }
            }
            return results;
        }
    }
}
