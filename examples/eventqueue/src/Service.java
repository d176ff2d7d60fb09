import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;

/** The shop: places orders, a few per second, and shows a page of its numbers. An order and its event are one transaction. */
public final class Service {
    private static final String[][] NUMBERS = {
        {"orders", "select count(*) from orders"},
        {"queued events", "select count(*) from event_queue"},
        {"events being handled", "select count(*) from event_queue where status = 'PROCESSING'"},
        {"completed events", "select count(*) from event_log where status = 'COMPLETED'"},
        {"events completed with errors", "select count(*) from event_log where status = 'COMPLETED_WITH_ERRORS'"},
    };

    private Service() {}

    public static void main(String[] args) throws Exception {
        String[] listen = System.getenv("LISTEN").split(":");
        HttpServer server = HttpServer.create(new InetSocketAddress(listen[0], Integer.parseInt(listen[1])), 0);
        server.createContext("/", Service::page);
        server.start();
        try (Connection connection = Database.connect(System.getenv("DATABASE_URL"))) {
            for (int number = 1;; number++) {
                // One order in eight asks for more than there is.
                place(connection, number % 8 == 0 ? 51 : number % 5 + 1);
                Thread.sleep(200);
            }
        }
    }

    private static void place(Connection connection, int pieces) throws SQLException {
        connection.setAutoCommit(false);
        try (var insert = connection.prepareStatement("insert into orders (pieces) values (?) returning id")) {
            insert.setInt(1, pieces);
            ResultSet row = insert.executeQuery();
            row.next();
            String payload = "{\"order\": " + row.getLong(1) + ", \"pieces\": " + pieces + "}";
            new EventQueue(connection).publish("OrderPlaced", payload);
        }
        connection.commit();
    }

    private static void page(HttpExchange exchange) throws IOException {
        String relay = System.getenv("POSTROOM_HTTP__LISTEN");
        StringBuilder html = new StringBuilder("<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\">"
            + "<title>eventqueue</title><h1>EventQueue</h1><table>\n");
        try (Connection connection = Database.connect(System.getenv("DATABASE_URL"));
                var statement = connection.createStatement()) {
            for (String[] number : NUMBERS) {
                ResultSet row = statement.executeQuery(number[1]);
                row.next();
                html.append("<tr><td>" + number[0] + "</td><td>" + row.getLong(1) + "</td></tr>\n");
            }
        } catch (SQLException error) {
            html.append("<tr><td>the database does not answer</td></tr>\n");
        }
        html.append("</table><p><a href=\"http://" + relay + "/\">the relay's console</a>, ");
        html.append("<a href=\"http://" + relay + "/metrics\">its metrics</a>\n");
        byte[] body = html.toString().getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().add("Content-Type", "text/html; charset=utf-8");
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
