import { seconds } from '../shared/format.js';

/** Knows when something was last heard of the server, and notices that nothing is. */
export interface Silence {
  /** There is a connection from now on, or none. */
  setConnected(isConnected: boolean): void;
  /** Anything has arrived on the connection. */
  hear(): void;
  /** An answer is waited for from now on. */
  begin(): void;
  /** Something of it has arrived. */
  receive(): void;
  /** It is waited for no more. */
  end(): void;
  readonly hearing: Hearing;
}

export type Hearing =
  | { readonly name: 'live' }
  /** Nothing arrives of an answer for so long, which may be the model's doing. */
  | { readonly name: 'waiting'; readonly ms: number; readonly heardMs: number }
  /** The browser has been offline for so long, and nothing has arrived since. A server on the same machine may still be reached. */
  | { readonly name: 'offline'; readonly ms: number; readonly heardMs: number }
  /** Nothing at all has arrived for so long, although the server was asked: it is not known whether there is a connection. */
  | { readonly name: 'unknown'; readonly ms: number; readonly heardMs: number };

/** A model may take a while, and a connection that is frozen counts as lost only much later. */
const WAITING_AFTER_MS = 3_000;
/** How long an answer to a PING may take before it is missed. */
const ANSWER_MS = 3_000;
/** By then, the client has sent a PING into the silence. */
const ASKED_MS = 6_000;
const LOOK_MS = 1_000;

/** A sentence for those who wait for more of an answer; empty if there is nothing to say. */
export function sayQuiet(hearing: Hearing): string {
  if (hearing.name === 'live') return '';
  const { ms, heardMs } = hearing;
  const isThere = ms - heardMs >= WAITING_AFTER_MS;
  const more = isThere
    ? ` The server was heard ${seconds(heardMs)} ago.`
    : heardMs < ASKED_MS
      ? ''
      : ' The connection is being checked.';
  return `Nothing of this answer has come for ${seconds(ms)}.${more}`;
}

/** Whether nothing is heard although something should be. */
export function isDeaf(hearing: Hearing): hearing is Extract<Hearing, { name: 'offline' | 'unknown' }> {
  return hearing.name === 'unknown' || hearing.name === 'offline';
}

/**
 * @param pingMs the silence after which the server is asked.
 * @param count anything that changes with what arrives, for connections that tell of no frames.
 * @param onChange called when it changes, and each second while nothing is heard or nothing of an answer comes.
 */
export function createSilence(
  pingMs: number,
  count: () => number,
  onChange: (before: Hearing) => void,
): Silence {
  let looking: ReturnType<typeof setInterval> | undefined;
  let heardAt = 0;
  let counted = 0;
  /** `undefined` if no answer is waited for. */
  let receivedAt: number | undefined;
  let hearing: Hearing = { name: 'live' };
  /** When the browser went offline. */
  let offlineAt = 0;
  window.addEventListener('offline', () => {
    offlineAt = performance.now();
    look();
  });
  window.addEventListener('online', look);

  function now(): Hearing {
    const at = performance.now();
    const heardMs = at - heardAt;
    if (looking !== undefined && !navigator.onLine && heardAt <= offlineAt)
      return { name: 'offline', ms: at - offlineAt, heardMs };
    if (looking !== undefined && heardMs >= pingMs + ANSWER_MS)
      return { name: 'unknown', ms: heardMs, heardMs };
    if (receivedAt !== undefined && at - receivedAt >= WAITING_AFTER_MS)
      return { name: 'waiting', ms: at - receivedAt, heardMs };
    return { name: 'live' };
  }

  function look(): void {
    const before = hearing;
    if (count() !== counted) heardAt = performance.now();
    counted = count();
    hearing = now();
    if (hearing.name !== before.name || hearing.name !== 'live') onChange(before);
  }

  function receive(): void {
    receivedAt = performance.now();
    if (hearing.name === 'waiting') look();
  }

  return {
    setConnected(isConnected) {
      clearInterval(looking);
      looking = isConnected ? setInterval(look, LOOK_MS) : undefined;
      heardAt = performance.now();
      if (receivedAt !== undefined) receivedAt = heardAt;
      look();
    },
    hear() {
      heardAt = performance.now();
      if (isDeaf(hearing)) look();
    },
    begin: receive,
    receive,
    end() {
      receivedAt = undefined;
      look();
    },
    get hearing() {
      return hearing;
    },
  };
}
