package dev.postroom;

/**
 * Event as a worker gets it. It may come twice, with the same id.
 *
 * @param id id of the event
 * @param type type of the event
 * @param attempt counts from 1
 * @param route route that delivers it
 * @param key ordering key of a CloudEvent, or null
 * @param data payload of a CloudEvent as JSON, or null
 * @param envelope envelope as JSON; a structured CloudEvent unless the route says otherwise
 */
public record Incoming(String id, String type, int attempt, String route, String key, String data, String envelope) {}
