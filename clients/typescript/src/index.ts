/** Appends events in your transaction, accepts them once, and works off the routes of a Postroom relay. */

export { accept, append, appendMany, appendOnce, NotInTransaction } from "./outbox";
export type { Event, Options, Queryable } from "./outbox";
export { Failure, Worker, WorkerError } from "./worker";
export type { Handler, Incoming, WorkerOptions } from "./worker";
