package dev.postroom.testing;

import dev.postroom.Outbox;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Event that a transaction has appended, and assertions about it for your tests. The role of the test must be able to read the log. Messages
 * list types and keys, without payloads.
 *
 * @param id id of the event
 * @param type type of the event
 * @param key key of the event, or null
 */
public record Appended(String id, String type, String key) {
    /** Asserts that the connection's transaction has appended an event of this type, and returns the first one. */
    public static Appended assertAppended(Connection connection, String type) throws SQLException {
        return assertAppended(connection, type, null, null);
    }

    /**
     * Asserts that the connection's transaction has appended an event of this type, with this key unless it is null, whose payload has at
     * least these members unless they are null, as {@code @>} of PostgreSQL compares them. Returns the first one.
     */
    public static Appended assertAppended(Connection connection, String type, String key, String payloadContains) throws SQLException {
        return assertAppended(connection, new Outbox(), type, key, payloadContains);
    }

    /** Asserts the same of an outbox with another schema. */
    public static Appended assertAppended(Connection connection, Outbox outbox, String type, String key, String payloadContains)
            throws SQLException {
        List<Row> rows = rows(connection, outbox, type, key, payloadContains);
        return rows.stream().filter(Row::wanted).map(Row::event).findFirst().orElseThrow(
                () -> new AssertionError("no such \"" + type + "\" was appended; there is " + list(rows)));
    }

    /** Asserts that the connection's transaction has appended no event of this type. */
    public static void assertNotAppended(Connection connection, String type) throws SQLException {
        List<Row> rows = rows(connection, new Outbox(), type, null, null);
        if (rows.stream().anyMatch(Row::wanted)) {
            throw new AssertionError("\"" + type + "\" was appended; there is " + list(rows));
        }
    }

    private record Row(Appended event, boolean wanted) {}

    private static List<Row> rows(Connection connection, Outbox outbox, String type, String key, String part) throws SQLException {
        Outbox.refuseAutoCommit(connection);
        String sql = """
                with wanted as (select cast(? as text) as type, cast(? as text) as key, cast(? as jsonb) as part)
                select log.id, log.type, coalesce(log.key, log.aggregate_id), log.type = wanted.type
                  and (wanted.key is null or wanted.key = coalesce(log.key, log.aggregate_id))
                  and (wanted.part is null or case when log.content_type is null
                    then cast(convert_from(log.payload, 'UTF8') as jsonb) @> wanted.part else false end)
                from %s.log, wanted
                where log.tx = cast(cast(pg_current_xact_id_if_assigned() as text) as bigint) order by log.seq
                """.formatted(outbox.schema());
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, type);
            statement.setString(2, key);
            statement.setString(3, part);
            List<Row> all = new ArrayList<>();
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    all.add(new Row(new Appended(rows.getString(1), rows.getString(2), rows.getString(3)), rows.getBoolean(4)));
                }
            }
            return all;
        }
    }

    private static String list(List<Row> rows) {
        if (rows.isEmpty()) {
            return "nothing";
        }
        return rows.stream().map(Row::event).map(event -> event.key == null ? event.type : event.type + " (key " + event.key + ")")
                .collect(Collectors.joining(", "));
    }
}
