package dev.postroom;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.StringJoiner;

/**
 * Event to append. Each method returns a copy with one more field.
 *
 * <pre>{@code Event.of("order.placed").key("order-7").json("{\"total\": 4200}")}</pre>
 */
public final class Event {
    /** Fields by the names of the parameters of the SQL functions. */
    private final Map<String, Object> fields;

    private Event(Map<String, Object> fields) {
        this.fields = fields;
    }

    /** Creates an event of this type, with the payload {@code null}. */
    public static Event of(String type) {
        return new Event(Map.of()).with("type", type);
    }

    /** Sets the key: events with the same key are delivered one after the other, in the order of their appends. */
    public Event key(String key) {
        return with("key", key);
    }

    /** Sets the payload, JSON that is kept as it is. */
    public Event json(String payload) {
        return with("payload", payload);
    }

    /** Sets a payload that is not JSON, kept byte for byte. */
    public Event bytes(byte[] payload, String contentType) {
        return with("payload", payload.clone()).with("content_type", contentType);
    }

    /** Sets the id, which is a fresh UUID otherwise. */
    public Event id(String id) {
        return with("id", id);
    }

    /** Sets whose event it is; without a key the id of the aggregate is the key. */
    public Event aggregate(String type, String id) {
        return with("aggregate_type", type).with("aggregate_id", id);
    }

    /** Sets the tenant. */
    public Event tenant(String tenant) {
        return with("tenant", tenant);
    }

    /** Sets headers of the messages. */
    public Event headers(Map<String, String> headers) {
        StringJoiner members = new StringJoiner(",", "{", "}");
        headers.forEach((name, value) -> members.add(Json.quote(name) + ":" + Json.quote(value)));
        return with("headers", members.toString());
    }

    /** Sets further attributes of the event, a JSON object. */
    public Event attributes(String attributes) {
        return with("attributes", attributes);
    }

    /** Sets the id of the request that the event belongs to. */
    public Event correlationId(String id) {
        return with("correlation_id", id);
    }

    /** Sets the id of the event that caused this one. */
    public Event causationId(String id) {
        return with("causation_id", id);
    }

    /** Sets the version of the payload's schema, 1 otherwise. */
    public Event schemaVersion(int version) {
        return with("schema_version", Integer.toString(version));
    }

    /** Sets when it happened, the time of the append otherwise. */
    public Event occurredAt(Instant time) {
        return with("occurred_at", time.toString());
    }

    /** Sets the time before which it is not delivered. */
    public Event availableAt(Instant time) {
        return with("available_at", time.toString());
    }

    boolean isJson() {
        return !fields.containsKey("content_type");
    }

    Object field(String name) {
        return fields.getOrDefault(name, Outbox.DEFAULTS.get(name));
    }

    /** One element of the list that append_many takes. */
    String listed() {
        StringJoiner members = new StringJoiner(",", "{", "}");
        for (String name : Outbox.PARAMETERS.keySet()) {
            String value = (String) field(name);
            if (value != null) {
                // A text that is not one whole value would become part of the list.
                members.add(Json.quote(name) + ":" + (Outbox.isJson(name) ? Json.checked(value) : Json.quote(value)));
            }
        }
        return members.toString();
    }

    private Event with(String name, Object value) {
        Map<String, Object> more = new LinkedHashMap<>(fields);
        more.put(name, value);
        return new Event(more);
    }
}
