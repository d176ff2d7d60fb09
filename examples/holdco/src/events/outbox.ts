// The event: a row of `event_outbox`, in the transaction of what it tells. It is all that the service knows of events.
import type { Tx } from "../prisma";

export interface Scope {
  groupId: string;
  subsidiaryId: string;
}

export async function append(tx: Tx, scope: Scope, aggregate: [string, string], eventType: string, payload: object) {
  const [aggregateType, aggregateId] = aggregate;
  await tx.eventOutbox.create({ data: { ...scope, aggregateType, aggregateId, eventType, payload } });
}
