import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** The team's queue: publish, poll, finalize. With a relay, the service needs publish only. */
final class EventQueue {
    /** An event in the queue; attempts counts how often it was taken. */
    record QueuedEvent(long id, String type, String payload, int attempts) {}

    private static final Duration ABANDONED_AFTER = Duration.ofMinutes(1);
    private final Connection connection;

    EventQueue(Connection connection) {
        this.connection = connection;
    }

    /** Puts an event into the queue, in the transaction of what it tells. */
    QueuedEvent publish(String type, String payload) throws SQLException {
        String insert = "insert into event_queue (event_type, payload) values (?, ?::jsonb) returning id";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setString(1, type);
            statement.setString(2, payload);
            ResultSet row = statement.executeQuery();
            row.next();
            return new QueuedEvent(row.getLong(1), type, payload, 0);
        }
    }

    /** Takes the next event: a pending one, or one whose process has not been heard of for a minute. */
    Optional<QueuedEvent> poll(Clock clock) throws SQLException {
        String take = "update event_queue set status = 'PROCESSING', attempts = attempts + 1, updated_at = ? where id ="
            + " (select id from event_queue where status = 'PENDING' or (status = 'PROCESSING' and updated_at < ?)"
            + " order by id limit 1 for update skip locked) returning id, event_type, payload::text, attempts";
        try (PreparedStatement statement = connection.prepareStatement(take)) {
            statement.setTimestamp(1, Timestamp.from(clock.instant()));
            statement.setTimestamp(2, Timestamp.from(clock.instant().minus(ABANDONED_AFTER)));
            ResultSet row = statement.executeQuery();
            return row.next()
                ? Optional.of(new QueuedEvent(row.getLong(1), row.getString(2), row.getString(3), row.getInt(4)))
                : Optional.empty();
        }
    }

    /** Moves an event into the log; does nothing if it is there already. */
    void finalize(long id, List<Handlers.Failure> errors) throws SQLException {
        String move = "with gone as (delete from event_queue where id = ? returning id, event_type, payload, attempts, created_at)"
            + " insert into event_log (id, event_type, payload, attempts, created_at, status, errors)"
            + " select gone.*, ?, ?::jsonb from gone on conflict do nothing";
        try (PreparedStatement statement = connection.prepareStatement(move)) {
            statement.setLong(1, id);
            statement.setString(2, errors.isEmpty() ? "COMPLETED" : "COMPLETED_WITH_ERRORS");
            statement.setString(3, Handlers.json(errors));
            statement.executeUpdate();
        }
    }
}
