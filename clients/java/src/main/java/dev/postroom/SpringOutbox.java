package dev.postroom;

import java.util.List;
import javax.sql.DataSource;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Appends and accepts in the running transaction of Spring: of {@code @Transactional} or a {@code TransactionTemplate}. Without one, or
 * with one of another data source, it refuses. Needs spring-jdbc.
 */
public final class SpringOutbox {
    private final JdbcTemplate template;
    private final Outbox outbox;

    /** Creates the outbox of the schema {@code postroom} in this data source. */
    public SpringOutbox(DataSource dataSource) {
        this(dataSource, new Outbox());
    }

    /** Creates the outbox of another schema. */
    public SpringOutbox(DataSource dataSource, Outbox outbox) {
        this.template = new JdbcTemplate(dataSource);
        this.outbox = outbox;
    }

    /** Appends an event in the running transaction and returns its id. It is delivered if and only if the transaction commits. */
    public String append(Event event) {
        return inTransaction(connection -> outbox.append(connection, event));
    }

    /** Appends an event unless this idempotency key was used before; returns its id, or null if it was. */
    public String appendOnce(String idempotencyKey, Event event) {
        return inTransaction(connection -> outbox.appendOnce(connection, idempotencyKey, event));
    }

    /** Appends several events in this order, with one statement; returns their ids. */
    public List<String> appendMany(List<Event> events) {
        return inTransaction(connection -> outbox.appendMany(connection, events));
    }

    /** Records in the running transaction that this consumer processes this event; see {@link Outbox#accept}. */
    public boolean accept(String consumer, String id) {
        return inTransaction(connection -> outbox.accept(connection, consumer, id));
    }

    private <T> T inTransaction(ConnectionCallback<T> work) {
        if (!TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalTransactionStateException("there is no transaction: annotate the method with @Transactional");
        }
        return template.execute(work);
    }
}
