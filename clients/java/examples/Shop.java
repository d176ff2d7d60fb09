// java -cp … Shop.java: the order and its event commit together, or neither does.
import dev.postroom.Event;
import dev.postroom.Outbox;
import java.sql.Connection;
import java.sql.DriverManager;

class Shop {
    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("insert into orders (id, total) values ('order-7', 4200)");
            new Outbox().append(connection, Event.of("order.placed").key("order-7").json("{\"total\": 4200}"));
            connection.commit();
        }
    }
}
