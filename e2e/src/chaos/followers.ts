import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type FollowedReply, ProtocolError, type Session } from '@parlance/client';
import type { RequestContext, RequestHandler } from '@parlance/protocol';
import WebSocket from 'ws';

/**
 * Kept replies under the storm: one session asks, three others of the same principal follow, as a reloaded page and
 * further devices do. Their connections are cut with all others; they close and come back with an offset, stall, stop
 * replies, and some replies meet a bound.
 */

/** The end of a reply for one reader. */
export type Ending = 'complete' | (string & {});

/** The reports of the readers of kept replies: the parts that they read, and the end. */
export class FollowerAccount {
  readonly faults: string[] = [];
  replies = 0;
  /** Parts that followers read. */
  parts = 0;
  /** Readers that came back in another session. */
  returns = 0;
  /** Followers that stayed, of replies within bounds that were not stopped. */
  expected = 0;
  complete = 0;
  readonly endings = new Map<Ending, number>();

  /** @returns the number of the next part. */
  read(reader: string, text: string, expected: number): number {
    this.parts++;
    const number = Number(text.split(' ', 1)[0]);
    if (number !== expected) {
      const what = number < expected ? 'came again' : 'came too early';
      this.faults.push(`${reader}: part ${number} ${what}, expected ${expected}`);
    }
    return number + 1;
  }

  /** @param read parts before and with this reader's offset. @param of parts of the whole reply. */
  ended(reader: string, ending: Ending, read: number, plan: Plan): void {
    this.endings.set(ending, (this.endings.get(ending) ?? 0) + 1);
    const isOrdinary = !plan.isStopped && !plan.isLarge;
    if (isOrdinary) this.expected++;
    if (ending === 'complete') {
      if (isOrdinary) this.complete++;
      if (read !== plan.parts) this.faults.push(`${reader}: complete after ${read} of ${plan.parts} parts`);
      if (plan.isLarge) this.faults.push(`${reader}: a reply beyond its bound is complete`);
    } else if (!STATED.has(ending)) this.faults.push(`${reader}: ended with ${ending}`);
  }

  check(): readonly string[] {
    const share = this.complete / this.expected;
    if (this.expected === 0 || share >= MIN_COMPLETE) return this.faults;
    return [
      ...this.faults,
      `only ${(share * 100).toFixed(1)} % of the replies were complete for their followers`,
    ];
  }
}

/** Of the followers that stay, and replies within bounds that are not stopped. */
const MIN_COMPLETE = 0.99;
/** How a reply may end that is not complete. */
const STATED: ReadonlySet<string> = new Set(['cancelled', 'reply_too_large', 'unknown_reply']);
/** Errors after which a reader comes back with its offset. */
const LOST: ReadonlySet<string> = new Set(['session_lost', 'session_closed']);

/** A reply of the server: numbered parts, at the pace of a model. */
export interface Plan {
  readonly name: string;
  readonly parts: number;
  /** One of the readers stops it. */
  readonly isStopped: boolean;
  /** It takes more memory than a reply may take. */
  readonly isLarge: boolean;
}

export const FOLLOWERS = 3;
const REPLY_BYTES = 64 * 1024;
export const REPLIES = { maxReplyBytes: REPLY_BYTES };
const LARGE_PART = 'x'.repeat(2_000);

/** Answers the requests of {@link followReplies}. */
export const keepReply: RequestHandler = async function* (request, { keep, signal }: RequestContext) {
  const { name, parts, isLarge } = request.json<Plan>();
  keep({ name });
  for (let i = 0; i < parts && !signal.aborted; i++) {
    if (Math.random() < 0.5) await sleep(Math.random() * 15);
    yield isLarge ? `${i} ${LARGE_PART}` : `${i} `;
  }
};

export interface FollowOptions {
  readonly url: string;
  readonly account: FollowerAccount;
  /** Connects a session of the principal. */
  readonly timers: NonNullable<Parameters<typeof connect>[1]>['timers'];
  readonly limits: NonNullable<Parameters<typeof connect>[1]>['limits'];
}

/** One principal: asks for one reply after the other, and follows each of them, until `until` aborts. */
export async function followReplies(
  principal: string,
  options: FollowOptions,
  until: AbortSignal,
): Promise<void> {
  for (let number = 0; !until.aborted; number++) {
    const kind = Math.random();
    const plan: Plan = {
      name: `${principal} ${number}`,
      parts: 1 + Math.floor(Math.random() * 120),
      isStopped: kind < 0.1,
      isLarge: kind > 0.9,
    };
    const large = { ...plan, parts: 60 };
    await followOne(principal, plan.isLarge ? large : plan, options);
  }
}

async function followOne(principal: string, plan: Plan, options: FollowOptions): Promise<void> {
  const { account } = options;
  const asking = await dial(principal, options);
  const reply = asking.stream({ ...plan });
  const first = reply[Symbol.asyncIterator]();
  try {
    await first.next();
  } catch {
    // The session was lost before the reply began; the next one has a name of its own.
    void asking.close();
    return;
  }
  account.replies++;
  const id = reply.keptId ?? plan.name;
  const readers = Array.from({ length: FOLLOWERS }, (_, i) => {
    const stopsAt = plan.isStopped && i === 0 ? Math.floor(Math.random() * plan.parts) : Infinity;
    return new Reader(`${plan.name}, follower ${i}`, principal, id, plan, stopsAt, options).run();
  });
  // The requester reads on, or its page is closed and the handler continues.
  if (Math.random() < 0.5) await drain(first);
  await asking.close();
  await Promise.all(readers);
}

async function drain(reply: AsyncIterator<unknown>): Promise<void> {
  try {
    while ((await reply.next()).done !== true);
  } catch {
    // The account of its session has the error; here it was only to be read.
  }
}

class Reader {
  readonly #name: string;
  readonly #principal: string;
  readonly #id: string;
  readonly #plan: Plan;
  readonly #stopsAt: number;
  readonly #options: FollowOptions;
  /** The part that was read last, counted from 1. */
  #position = 0;

  constructor(
    name: string,
    principal: string,
    id: string,
    plan: Plan,
    stopsAt: number,
    options: FollowOptions,
  ) {
    this.#name = name;
    this.#principal = principal;
    this.#id = id;
    this.#plan = plan;
    this.#stopsAt = stopsAt;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { account } = this.#options;
    for (;;) {
      const session = await dial(this.#principal, this.#options);
      const ending = await this.#follow(session);
      // As a page that is loaded again: without waiting for the end of its session.
      const closing = session.close();
      if (ending !== undefined) {
        await closing;
        return account.ended(this.#name, ending, this.#position, this.#plan);
      }
      account.returns++;
    }
  }

  /** @returns `undefined` if the reader is to come back. */
  async #follow(session: Session): Promise<Ending | undefined> {
    const { account } = this.#options;
    const leavesAt = Math.random() < 0.4 ? this.#position + 1 + Math.floor(Math.random() * 40) : Infinity;
    const reply = session.follow(this.#id, { after: this.#position });
    try {
      for await (const { text } of reply) {
        this.#position = account.read(this.#name, text, this.#position);
        if (reply.position !== this.#position) {
          account.faults.push(`${this.#name}: at position ${reply.position} after part ${this.#position}`);
        }
        if (Math.random() < 0.01) await sleep(Math.random() * 400);
        if (this.#position > this.#stopsAt) await stop(reply);
        if (this.#position >= leavesAt) return undefined;
      }
      return 'complete';
    } catch (error) {
      if (!(error instanceof ProtocolError)) return String(error);
      return LOST.has(error.code) ? undefined : error.code;
    }
  }
}

/** A stop that does not arrive is tried again with the next part. */
async function stop(reply: FollowedReply): Promise<void> {
  await reply.stop().catch(() => {});
}

async function dial(token: string, { url, timers, limits }: FollowOptions): Promise<Session> {
  for (;;) {
    try {
      return await connect(url, {
        WebSocket,
        token,
        timers,
        limits,
        reconnect: { minDelayMs: 5, maxDelayMs: 300 },
        signal: AbortSignal.timeout(5_000),
      });
    } catch {
      // The first attempt is not repeated, and it may be cut like any other.
    }
  }
}
