/** A worker for a route of kind `pull`: leases events over HTTP, runs your handler, and settles the results. */

import { setTimeout as sleep } from "node:timers/promises";

/** Results wait at most this long for others: the next event of a key comes after the one before is settled. */
const SETTLE_AFTER_MS = 1_000;
/** First and longest pause while the relay is away. */
const [PAUSE_MS, PAUSE_MAX_MS] = [200, 10_000];

/** Event as a worker gets it. It may come twice, with the same id. */
export interface Incoming {
  readonly id: string;
  readonly type: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly route: string;
  /** Ordering key of a CloudEvent. */
  readonly key: string | undefined;
  /** Payload of a CloudEvent. */
  readonly data: any;
  /** Envelope; a structured CloudEvent unless the route says otherwise. */
  readonly envelope: any;
}

/** Work on an event. The event is delivered when it returns, or its promise is fulfilled. */
export type Handler = (event: Incoming) => unknown;

/**
 * Error that says what becomes of the event: `permanent` makes it a dead letter, `retryAfterMs` asks for another attempt after
 * that time. After any other error the event is retried as the route's `retry` says.
 */
export class Failure extends Error {
  readonly permanent: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { permanent?: boolean; retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "Failure";
    this.permanent = options.permanent ?? false;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Error for a worker that the relay refuses: a wrong token, or no such route. */
export class WorkerError extends Error {
  override name = "WorkerError";
}

/** The relay cannot be asked at the moment. */
class Away extends Error {}

/** Options of a worker. */
export interface WorkerOptions {
  /** Maximum number of events at once; 20 by default. */
  limit?: number;
  /** Time that a whole batch of `limit` events may take; 30 s by default. */
  leaseMs?: number;
  /** How long the relay waits for the first event, and so how long an idle worker takes to stop; 5 s by default. */
  waitMs?: number;
  /** Takes messages for an operator; `console.warn` by default. */
  log?: (message: string, error?: unknown) => void;
}

interface Leased {
  lease: string;
  id: string;
  type: string;
  attempt: number;
  route: string;
  envelope: any;
}

interface Result {
  lease: string;
  ok?: true;
  error?: string;
  permanent?: boolean;
  retry_after?: string;
}

/**
 * Worker that leases events of a route, runs a handler for each, one after the other, and settles them. Run several for more at
 * once. An event whose lease has ended before its turn is left to the next worker.
 */
export class Worker {
  readonly #url: string;
  readonly #stopping = new AbortController();
  readonly #options: Required<WorkerOptions>;

  constructor(
    url: string,
    route: string,
    readonly token: string,
    readonly handler: Handler,
    options: WorkerOptions = {},
  ) {
    this.#url = `${url.replace(/\/+$/, "")}/api/v1/pull/${encodeURIComponent(route)}`;
    this.#options = { limit: 20, leaseMs: 30_000, waitMs: 5_000, log: console.warn, ...options };
  }

  /** Lets {@link run} return when the events in hand are settled. It may be called twice. */
  stop(): void {
    this.#stopping.abort();
  }

  /**
   * Works until {@link stop} is called or, unless `signals` is false, SIGTERM or SIGINT arrives. Then finishes the events in hand,
   * settles them, and leases no more. Waits while the relay is away. Throws a {@link WorkerError} if the relay refuses the worker.
   */
  async run({ signals = true }: { signals?: boolean } = {}): Promise<void> {
    const stop = () => this.stop();
    const names = signals ? (["SIGTERM", "SIGINT"] as const) : [];
    for (const name of names) process.on(name, stop);
    try {
      await this.#run();
    } finally {
      for (const name of names) process.off(name, stop);
    }
  }

  async #run(): Promise<void> {
    const { limit, leaseMs, waitMs, log } = this.#options;
    const { signal } = this.#stopping;
    let pause = PAUSE_MS;
    while (!signal.aborted) {
      const ends = performance.now() + leaseMs;
      try {
        const leased = await this.#post("", { limit, wait: `${waitMs}ms`, lease: `${leaseMs}ms` });
        pause = PAUSE_MS;
        await this.#work(leased, ends);
      } catch (error) {
        if (!(error instanceof Away)) throw error;
        log(`postroom: the relay is away, again in ${pause} ms: ${error.message}`);
        await sleep(pause, undefined, { signal }).catch(() => {});
        pause = Math.min(2 * pause, PAUSE_MAX_MS);
      }
    }
  }

  async #work(leased: Leased[], ends: number): Promise<void> {
    let [results, settled]: [Result[], number] = [[], performance.now()];
    for (const event of leased) {
      if (performance.now() >= ends) {
        this.#options.log("postroom: leases ended before their turn: lower limit, or raise leaseMs");
        break;
      }
      results.push(await this.#handle(event));
      if (performance.now() - settled >= SETTLE_AFTER_MS) {
        await this.#settle(results, ends);
        [results, settled] = [[], performance.now()];
      }
    }
    await this.#settle(results, ends);
  }

  async #handle({ lease, id, type, attempt, route, envelope }: Leased): Promise<Result> {
    try {
      await this.handler({ id, type, attempt, route, envelope, key: envelope?.partitionkey, data: envelope?.data });
      return { lease, ok: true };
    } catch (error) {
      this.#options.log(`postroom: event ${id} failed`, error);
      if (!(error instanceof Failure)) return { lease, error: String(error) };
      const result: Result = { lease, error: error.message, permanent: error.permanent };
      if (error.retryAfterMs !== undefined) result.retry_after = `${Math.round(error.retryAfterMs)}ms`;
      return result;
    }
  }

  async #settle(results: Result[], ends: number): Promise<void> {
    let pause = PAUSE_MS;
    while (results.length > 0) {
      try {
        const { unknown } = await this.#post("/settle", { results });
        if (unknown.length > 0) {
          this.#options.log(`postroom: ${unknown.length} events came too late to be settled and may come again`);
        }
        return;
      } catch (error) {
        if (!(error instanceof Away)) throw error;
        if (performance.now() + pause >= ends) {
          this.#options.log(`postroom: ${results.length} events could not be settled and will come again: ${error.message}`);
          return;
        }
        await sleep(pause);
        pause = Math.min(2 * pause, PAUSE_MAX_MS);
      }
    }
  }

  async #post(path: string, body: unknown): Promise<any> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.#url + path, {
        method: "POST",
        body: JSON.stringify(body),
        headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
        redirect: "manual",
        signal: AbortSignal.timeout(this.#options.waitMs + 10_000),
      });
      text = await response.text();
      if (response.ok) return JSON.parse(text);
    } catch (error) {
      const { message, cause } = error as Error & { cause?: Error };
      throw new Away(cause?.message ?? message);
    }
    const detail = `${response.status}: ${text.slice(0, 1000)}`;
    if (response.status === 408 || response.status === 429 || response.status >= 500) throw new Away(detail);
    throw new WorkerError(`the relay refuses the worker with ${detail}`);
  }
}
