// java -cp postgresql.jar Snippet.java, with DATABASE_URL set to jdbc:postgresql://…; needs Java 17 and the JDBC driver.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

public class Snippet {
    /** The order and its event commit together, or neither does. */
    static String placeOrder(Connection connection, String order, int total) throws SQLException {
        try (PreparedStatement write = connection.prepareStatement("insert into orders (id, total) values (?, ?)");
                PreparedStatement append = connection.prepareStatement(
                        "select postroom.append('order.placed', ?, ?::json)")) {
            write.setString(1, order);
            write.setInt(2, total);
            write.executeUpdate();
            append.setString(1, order);
            append.setString(2, "{\"total\": " + total + "}");
            try (ResultSet rows = append.executeQuery()) {
                rows.next();
                String id = rows.getString(1);
                connection.commit();
                return id;
            }
        } catch (SQLException error) {
            connection.rollback();
            throw error;
        }
    }

    /** The id is remembered in the transaction of the effect, so a second delivery changes nothing. */
    static void book(Connection connection, String eventId, String order, int total) throws SQLException {
        try (PreparedStatement accept = connection.prepareStatement("select postroom.accept('books', ?)");
                PreparedStatement write = connection.prepareStatement(
                        "insert into booked (order_id, total) values (?, ?)")) {
            accept.setString(1, eventId);
            try (ResultSet rows = accept.executeQuery()) {
                rows.next();
                if (rows.getBoolean(1)) {
                    write.setString(1, order);
                    write.setInt(2, total);
                    write.executeUpdate();
                }
            }
            connection.commit();
        } catch (SQLException error) {
            connection.rollback();
            throw error;
        }
    }

    public static void main(String[] args) throws SQLException {
        try (Connection connection = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            connection.setAutoCommit(false);
            String eventId = placeOrder(connection, "order-7", 4200);
            book(connection, eventId, "order-7", 4200);
            book(connection, eventId, "order-7", 4200); // delivered twice, booked once
            try {
                placeOrder(connection, "order-8\n", 100);
            } catch (SQLException error) {
                System.out.println(error.getSQLState() + " " + error.getMessage().lines().findFirst().orElse(""));
            }
        }
    }
}
