// The connection to the database, which the service, the consumer and the old worker share.
import { PrismaPg } from "@prisma/adapter-pg";
import { Prisma, PrismaClient } from "../generated/client";

export type Tx = Prisma.TransactionClient;

export const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }), transactionOptions: { maxWait: 30_000, timeout: 30_000 } });
