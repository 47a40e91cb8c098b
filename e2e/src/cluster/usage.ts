import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';

/** Uses sessions of `node.ts` in which every message and part is numbered. */

export interface Usage {
  readonly id: string;
  readonly faults: readonly string[];
  /** The session was lost with its node, which the client was told. */
  readonly isLost: boolean;
}

/** Says numbers, which come back, and asks for streams, until `isOver` and everything has come back. */
export async function useSession(session: Session, isOver: () => boolean): Promise<Usage> {
  const { id } = session;
  const faults: string[] = [];
  let isLost = false;
  session.on('reset', () => {
    isLost = true;
  });
  let [said, heard, asked] = [0, 0, 0];
  const listen = (async () => {
    for await (const { text } of session) {
      if (isLost) return;
      if (text !== String(heard)) faults.push(`heard ${text} and not ${heard}`);
      heard++;
      if (isOver() && heard === said) return;
    }
  })();
  const talk = async () => {
    for (; !isOver() && !isLost; await pause(Math.random() * 10)) await session.send(String(said++));
    if (!isLost) await session.send(String(said++));
  };
  const ask = async () => {
    for (; !isOver() && !isLost; await pause(Math.random() * 30)) {
      const parts = Math.floor(Math.random() * 15);
      const text = `${'a question that is asked again '.repeat(40)}${asked++}`;
      const expected = Array.from({ length: parts }, (_, i) => `${i}:${text.length}:${text.slice(-8)} `).join(
        '',
      );
      let reply = '';
      const metadata = { parts: String(parts), pauseMs: '3' };
      for await (const part of session.stream(text, { metadata })) reply += part.text;
      if (reply !== expected) faults.push(`${reply} and not ${expected}`);
    }
  };
  // A call that fails because its session is lost is not a fault.
  const outcomes = await Promise.allSettled([
    talk(),
    ask(),
    ask(),
    Promise.race([listen, until(() => isLost)]),
  ]);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected' && !isLost) faults.push(String(outcome.reason));
  return { id, faults, isLost };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(10);
}
