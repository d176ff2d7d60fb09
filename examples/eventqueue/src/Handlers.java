import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** What the service does about events. Each handler's work and its row in `handled` are one transaction: an event may come twice. */
final class Handlers {
    /** A handler that could not do its work. */
    record Failure(String handler, String error) {}

    private interface Handler {
        void handle(Connection connection, long order, int pieces) throws SQLException;
    }

    private static final Map<String, Handler> OF_ORDERS = new LinkedHashMap<>();

    static {
        OF_ORDERS.put("mail", (connection, order, pieces) -> execute(connection, "insert into mails values (?)", order));
        OF_ORDERS.put("stock", (connection, order, pieces) -> {
            if (pieces > 50) {
                throw new SQLException("only 50 pieces are left");
            }
            execute(connection, "insert into reservations values (?, ?)", order, pieces);
        });
    }

    private Handlers() {}

    /** Hands an event to each handler of its type that has not done it yet. An event that nobody handles is done. */
    static List<Failure> handle(Connection connection, long id, String type, String payload) throws SQLException {
        List<Failure> failures = new ArrayList<>();
        if (!type.equals("OrderPlaced")) {
            return failures;
        }
        long[] order = order(connection, payload);
        connection.setAutoCommit(false);
        for (Map.Entry<String, Handler> handler : OF_ORDERS.entrySet()) {
            try {
                String once = "insert into handled values (?, ?) on conflict do nothing";
                if (execute(connection, once, id, handler.getKey()) == 1) {
                    handler.getValue().handle(connection, order[0], (int) order[1]);
                }
                connection.commit();
            } catch (SQLException error) {
                connection.rollback();
                failures.add(new Failure(handler.getKey(), error.getMessage()));
            }
        }
        connection.setAutoCommit(true);
        return failures;
    }

    /** The failures as JSON; handlers and their messages are plain texts. */
    static String json(List<Failure> failures) {
        return failures.stream()
            .map(failure -> "{\"handler\": \"" + failure.handler() + "\", \"error\": \"" + failure.error().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}")
            .collect(Collectors.joining(", ", "[", "]"));
    }

    private static long[] order(Connection connection, String payload) throws SQLException {
        String fields = "select (p->>'order')::bigint, (p->>'pieces')::bigint from (select ?::jsonb) of(p)";
        try (PreparedStatement statement = connection.prepareStatement(fields)) {
            statement.setString(1, payload);
            ResultSet row = statement.executeQuery();
            row.next();
            return new long[] {row.getLong(1), row.getLong(2)};
        }
    }

    private static int execute(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int place = 0; place < values.length; place++) {
                statement.setObject(place + 1, values[place]);
            }
            return statement.executeUpdate();
        }
    }
}
