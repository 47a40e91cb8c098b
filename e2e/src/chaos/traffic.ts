import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Message,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
  type Session,
} from '@parlance/protocol';
import type { Account, Side } from './account.js';

/**
 * An application at one end of a session that uses the public API: numbered messages, requests and streams,
 * some of them large, some read late, some cancelled.
 */

/** The content of a request: its answer is itself, or numbers counting up. */
type Question = { readonly number: number } & ({ readonly echo: string } | { readonly count: number });

export interface TrafficOptions {
  readonly account: Account;
  /** Average time between two actions of one end, in milliseconds. */
  readonly paceMs: number;
}

const MAX_PARTS = 12;
const LARGE = 150_000;

/** Answers the requests of {@link runTraffic} at the other end. */
export function createHandler(account: Account, side: Side): RequestHandler {
  return (request: Message, { session, signal }: RequestContext) => {
    const question = request.json<Question>();
    account.asked(session.id, side, question.number);
    return 'echo' in question ? { text: question.echo } : count(question.count, signal);
  };
}

async function* count(to: number, signal: AbortSignal): AsyncGenerator<string> {
  for (let i = 0; i < to && !signal.aborted; i++) {
    if (chance(0.3)) await sleep(Math.random() * 20);
    yield String(i);
  }
}

/** Uses a session until `until` aborts; resolves when all of its work is done. */
export async function runTraffic(
  session: Session,
  side: Side,
  { account, paceMs }: TrafficOptions,
  until: AbortSignal,
): Promise<void> {
  const { id } = session;
  const pause = () => sleep(Math.random() * 2 * paceMs);
  /** Calls that fail because their session ends are not faults. */
  const attempt = async (what: string, task: () => Promise<void>): Promise<void> => {
    try {
      await task();
    } catch (error) {
      const isOver =
        until.aborted || session.id !== id || session.state === 'closing' || session.state === 'closed';
      if (!isOver || !(error instanceof ProtocolError)) account.fault(id, side, `${what}: ${String(error)}`);
    }
  };

  const speak = async (): Promise<void> => {
    while (!until.aborted) {
      // Most messages are small, a few are large.
      await attempt('send', async () => {
        const size = chance(0.01) ? LARGE : Math.random() * 400;
        // It counts at once, because it may arrive while the promise still waits for capacity.
        const sent = session.send(message(account.send(id, side), size));
        try {
          await sent;
        } catch (error) {
          account.refused(id, side);
          throw error;
        }
      });
      await pause();
    }
  };

  let nextQuestion = 0;
  const ask = async (): Promise<void> => {
    while (!until.aborted) {
      const number = nextQuestion++;
      await attempt('request', async () => {
        const echo = `${number} ${'x'.repeat(chance(0.02) ? LARGE : 20)}`;
        const reply = await session.request({ number, echo });
        account.replied(id, side, reply.text, echo);
      });
      await pause();
    }
  };

  const stream = async (): Promise<void> => {
    while (!until.aborted) {
      const number = nextQuestion++;
      await attempt('stream', async () => {
        const parts = Math.floor(Math.random() * MAX_PARTS);
        const leaveAt = chance(0.1) ? Math.floor(Math.random() * parts) : parts;
        let i = 0;
        for await (const part of session.stream({ number, count: parts })) {
          account.replied(id, side, part.text, String(i));
          if (++i > leaveAt) return;
          if (chance(0.02)) await sleep(300);
        }
        if (i !== parts) account.fault(id, side, `a stream of ${parts} parts ended after ${i}`);
      });
      await pause();
    }
  };

  await Promise.all([speak(), ask(), stream()]);
}

/** Reads one-way messages until the session ends. */
export async function readMessages(session: Session, side: Side, account: Account): Promise<void> {
  const { id } = session;
  try {
    for await (const { bytes } of session) {
      account.received(id, side, numberOf(bytes));
      // A reader that is busy with something else for a while.
      if (chance(0.005)) await sleep(200);
    }
    account.ended(id, side, undefined);
  } catch (error) {
    account.ended(id, side, error instanceof ProtocolError ? error.code : String(error));
  }
}

function message(number: number, size: number): Uint8Array {
  const bytes = new Uint8Array(4 + Math.floor(size)).fill(number & 0xff);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** The number of a message, or -1 if its bytes are damaged. */
function numberOf(bytes: Uint8Array): number {
  const number = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
  return bytes.subarray(4).every((byte) => byte === (number & 0xff)) ? number : -1;
}

const chance = (share: number): boolean => Math.random() < share;
