package dev.postroom;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** The shop's database. */
final class Database {
    static final String URL = System.getenv("DATABASE_URL");

    private Database() {}

    /** Opens a connection with a transaction. */
    static Connection begin() throws SQLException {
        Connection connection = DriverManager.getConnection(URL);
        connection.setAutoCommit(false);
        return connection;
    }

    /** The payload of an event, or null if there is no such event. */
    static String payload(Connection connection, String id) throws SQLException {
        return column(connection, "convert_from(payload, 'UTF8')", id);
    }

    static String column(Connection connection, String column, String id) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement("select " + column + " from postroom.log where id = ?")) {
            select.setString(1, id);
            try (ResultSet rows = select.executeQuery()) {
                return rows.next() ? rows.getString(1) : null;
            }
        }
    }
}
