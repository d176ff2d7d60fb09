import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

/** Connects to the database of a URL such as postgres://user:password@host:5432/name. */
final class Database {
    private Database() {}

    static Connection connect(String url) throws SQLException {
        URI uri = URI.create(url);
        String[] login = uri.getUserInfo().split(":", 2);
        String jdbc = "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath();
        return DriverManager.getConnection(jdbc, login[0], login.length > 1 ? login[1] : "");
    }
}
