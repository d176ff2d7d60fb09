// java -cp … Books.java: books each order once, until SIGTERM.
import dev.postroom.Incoming;
import dev.postroom.Outbox;
import dev.postroom.Worker;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;

class Books {
    static void book(Incoming event) throws Exception {
        try (Connection connection = DriverManager.getConnection(System.getenv("DATABASE_URL"))) {
            connection.setAutoCommit(false);
            if (new Outbox().accept(connection, "books", event.id())) { // in the transaction of the effect
                String sql = "insert into booked (order_id, total) values (?, (cast(? as json) ->> 'total')::int)";
                try (PreparedStatement insert = connection.prepareStatement(sql)) {
                    insert.setString(1, event.key());
                    insert.setString(2, event.data());
                    insert.executeUpdate();
                }
            }
            connection.commit();
        }
    }

    public static void main(String[] args) {
        new Worker(System.getenv("WORKER_URL"), "mailer", System.getenv("WORKER_TOKEN"), Books::book).closeOnShutdown().run();
    }
}
