// Orders, payments and stock: every change and what it tells are one commit. Nothing here knows of RabbitMQ.
import { append, Scope } from "./events/outbox";
import { prisma } from "./prisma";

export class Refused extends Error {}

export interface NewOrder extends Scope {
  order_no: string;
  total_amount: string;
  sku: string;
  pieces: number;
}

// Places an order and takes its pieces from stock. An order number is the key of the request: repeated, nothing happens.
export async function place(request: NewOrder): Promise<boolean> {
  const { groupId, subsidiaryId, order_no, total_amount, sku, pieces } = request;
  const scope = { groupId, subsidiaryId };
  return prisma.$transaction(async (tx) => {
    const order = { ...scope, orderNo: order_no, totalAmount: total_amount };
    const [placed] = await tx.order.createManyAndReturn({ data: order, skipDuplicates: true });
    if (!placed) return false;
    await append(tx, scope, ["order", placed.id], "created", { order_no, total_amount, currency: "NGN" });

    const taken = await tx.stock.updateMany({
      where: { sku, pieces: { gte: pieces } },
      data: { pieces: { decrement: pieces } },
    });
    // The order and its event go back with it.
    if (taken.count === 0 || pieces < 1) throw new Refused(`there are no ${pieces} pieces of ${sku}`);
    const adjustment = await tx.stockAdjustment.create({ data: { orderId: placed.id, sku, pieces: -pieces } });
    await append(tx, scope, ["stock_adjustment", adjustment.id], "posted", { sku, pieces: -pieces });
    return true;
  });
}

// Notes how the payment of an order went. An order is paid once.
export async function pay(orderNo: string, outcome: "captured" | "failed"): Promise<boolean> {
  return prisma.$transaction(async (tx) => {
    const status = outcome === "captured" ? "paid" : "open";
    const [order] = await tx.order.updateManyAndReturn({ where: { orderNo, status: "open" }, data: { status } });
    if (!order) return false;
    const intent = await tx.paymentIntent.create({ data: { orderId: order.id, status: outcome } });
    const { groupId, subsidiaryId } = order;
    await append(tx, { groupId, subsidiaryId }, ["payment_intent", intent.id], outcome, { order_no: orderNo });
    return true;
  });
}
