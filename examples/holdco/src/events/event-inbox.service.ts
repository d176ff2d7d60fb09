// The inbox: an event is new to a consumer once.
import type { PrismaClient } from "../../generated/client";
import type { Tx } from "../prisma";

export class EventInboxService {
  constructor(private readonly prisma: PrismaClient) {}

  // Runs the work of a consumer once per event, in the transaction of its row in `event_inbox`: a crash leaves both or none.
  async once(consumerName: string, eventId: string, work: (tx: Tx) => Promise<void>): Promise<boolean> {
    return this.prisma.$transaction(async (tx) => {
      const { count } = await tx.eventInbox.createMany({ data: { consumerName, eventId }, skipDuplicates: true });
      if (count === 1) await work(tx);
      return count === 1;
    });
  }

  // Throws while the database is away, so that no message is blamed for it.
  async ping(): Promise<void> {
    await this.prisma.$queryRaw`select 1`;
  }
}
