// Notifies customers of their orders and failed payments.
import type { ConsumeMessage } from "amqplib";
import { setTimeout as sleep } from "node:timers/promises";
import { EventInboxService } from "./event-inbox.service";

const TRIES = 3;

export class OrderEventsConsumer {
  constructor(private readonly inbox: EventInboxService, private readonly name: string) {}

  // Whether the message is done; one that is not belongs into the dead-letter queue.
  async handleMessage(message: ConsumeMessage | null): Promise<boolean> {
    if (!message) return false;
    for (let attempt = 1; ; attempt++) {
      try {
        console.log(await this.accept(JSON.parse(message.content.toString())));
        return true;
      } catch (error) {
        // Without a database no message is to blame: this throws, the program ends, and the broker keeps what is not acknowledged.
        await this.inbox.ping();
        if (attempt === TRIES) {
          console.log(`${message.properties.messageId} is rejected: ${(error as Error).message}`);
          return false;
        }
        await sleep(50 * 2 ** attempt);
      }
    }
  }

  private async accept(event: any): Promise<string> {
    const text = `${event.payload.order_no}: ${event.aggregate_type} ${event.event_type}`;
    const isNew = await this.inbox.once(this.name, event.event_id, async (tx) => {
      if (!event.payload.order_no) throw new Error("the payload has no order_no");
      await tx.notification.create({ data: { eventId: event.event_id, text } });
    });
    return isNew ? text : `${event.event_id} came again`;
  }
}
