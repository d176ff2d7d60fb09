package dev.postroom;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;

class SpringOutboxTest {
    @Configuration
    @EnableTransactionManagement
    static class Config {
        @Bean
        DataSource dataSource() {
            return new DriverManagerDataSource(Database.URL);
        }

        @Bean
        DataSourceTransactionManager transactionManager(DataSource dataSource) {
            return new DataSourceTransactionManager(dataSource);
        }

        @Bean
        SpringOutbox outbox(DataSource dataSource) {
            return new SpringOutbox(dataSource);
        }

        @Bean
        Shops shops(SpringOutbox outbox) {
            return new Shops(outbox);
        }
    }

    static class Shops {
        private final SpringOutbox outbox;

        Shops(SpringOutbox outbox) {
            this.outbox = outbox;
        }

        /** Returns what the outbox said. */
        @Transactional
        public List<Object> open() {
            String id = outbox.append(Event.of("shop.opened").key("shop-1"));
            return List.of(id, outbox.appendMany(List.of(Event.of("shop.moved"), Event.of("shop.closed"))).size(),
                    outbox.appendOnce(id, Event.of("shop.opened")) != null, outbox.appendOnce(id, Event.of("shop.opened")) == null,
                    outbox.accept("books", id), outbox.accept("books", id));
        }

        @Transactional
        public String fail(List<String> ids) {
            ids.add(outbox.append(Event.of("shop.opened")));
            throw new IllegalStateException("no money");
        }
    }

    @Test
    void eventsCommitAndRollBackWithTransactionalMethods() throws Exception {
        try (var context = new AnnotationConfigApplicationContext(Config.class); Connection connection = Database.begin()) {
            Shops shops = context.getBean(Shops.class);
            List<Object> said = shops.open();
            String kept = (String) said.get(0);
            assertEquals(List.of(kept, 2, true, true, true, false), said);
            assertEquals("null", Database.payload(connection, kept));

            List<String> gone = new ArrayList<>();
            assertThrows(IllegalStateException.class, () -> shops.fail(gone));
            assertNull(Database.payload(connection, gone.get(0)));
        }
    }

    @Test
    void anAppendWithoutATransactionIsRefused() {
        SpringOutbox outbox = new SpringOutbox(new DriverManagerDataSource(Database.URL));
        assertThrows(IllegalTransactionStateException.class, () -> outbox.append(Event.of("shop.opened")));
    }
}
