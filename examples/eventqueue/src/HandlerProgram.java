import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.List;

/** The handlers as a program that the relay starts: it reads a line per event and answers with a line. */
public final class HandlerProgram {
    private HandlerProgram() {}

    // The database reads the JSON: the program needs no library for it.
    private static final String FIELDS =
        "select line->>'id', line->>'type', (line->'envelope'->'payload')::text from (select ?::jsonb) of(line)";

    public static void main(String[] args) throws Exception {
        // The relay keeps DATABASE_URL to itself. Without a database no event is to blame: the program ends, and the relay
        // counts no attempt.
        try (Connection connection = Database.connect(System.getenv("EVENTQUEUE_DATABASE_URL"));
                PreparedStatement fields = connection.prepareStatement(FIELDS)) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                fields.setString(1, line);
                ResultSet row = fields.executeQuery();
                row.next();
                String id = row.getString(1);
                List<Handlers.Failure> failures =
                    Handlers.handle(connection, Long.parseLong(id), row.getString(2), row.getString(3));
                String answer = failures.isEmpty() ? "\"ok\": true" : "\"errors\": " + Handlers.json(failures);
                System.out.println("{\"id\": \"" + id + "\", " + answer + "}");
                System.out.flush();
            }
        }
    }
}
