import { CloseCode, ResumeRefusal } from '@parlance/protocol';
import { withResolvers } from '@parlance/protocol/internal';
import { NOT_RESUMED } from '../../session/admission/lookup.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import { type DialFailure, type DialOptions, dial } from '../../transport/websocket/ws.js';
import { within } from '../within.js';

/** How long the owner of a session may take to answer a HELLO, in milliseconds. */
export const ANSWER_TIMEOUT_MS = 1_000;

/**
 * The outcome of asking: the owner has answered and `begin` was called; the client may not resume, and begins a new
 * session; the owner has closed the connection, and so is the client's; or there was no answer.
 */
export type Answer =
  | { readonly type: 'proxied' }
  | { readonly type: 'refused'; readonly refusal: ResumeRefusal }
  | { readonly type: 'closed'; readonly code: number; readonly reason: string }
  /** The process that has had the session is gone, or has forgotten it. */
  | { readonly type: 'gone' }
  /** The connection broke, because the process has just died, or on its way. */
  | { readonly type: 'broken'; readonly why: string }
  /** The owner may live. */
  | { readonly type: 'silent'; readonly why: string };

export interface AskOptions extends DialOptions {
  /** @default ANSWER_TIMEOUT_MS */
  readonly timeoutMs?: number | undefined;
  readonly url: string;
  readonly hello: Uint8Array | string;
  /** The client is gone. */
  readonly signal: AbortSignal;
  /** Passes on the first message of the owner and everything that follows. Returns what listens from now on. */
  readonly begin: (far: Transport) => TransportEvents;
}

/** The client is gone, so there is no answer to wait for. */
const ABANDONED: Answer = { type: 'closed', code: CloseCode.ABNORMAL, reason: '' };

/** Of HTTP: the session or the node of that incarnation is not at this address any more. */
const GONE: ReadonlySet<number | undefined> = new Set([404, 410]);

/** Asks the owner of a session to continue with a connection that has arrived here. Never rejects. */
export function ask(options: AskOptions): Promise<Answer> {
  const { timeoutMs = ANSWER_TIMEOUT_MS, url, hello, begin, signal } = options;
  if (signal.aborted) return Promise.resolve(ABANDONED);
  let far: Transport | undefined;
  let events: TransportEvents | undefined;
  const { promise: answered, resolve: settle } = withResolvers<Answer>();
  let isOver = false;
  const abandonDial = dial(
    url,
    options,
    (wire) => {
      if (isOver) return wire.terminate();
      far = wire;
      wire.listen({
        onMessage(data, size) {
          if (events === undefined) {
            if (isOver) return;
            settle({ type: 'proxied' });
            events = begin(wire);
          }
          events.onMessage(data, size);
        },
        onClose(code, reason) {
          if (events === undefined) settle(meaningOfClose(code, reason));
          else events.onClose(code, reason);
        },
        onDrain: () => events?.onDrain(),
        onFault: (error) => events?.onFault(error),
        onControl() {},
        onData() {},
      });
      wire.send(hello);
    },
    (failure) => settle(meaningOf(failure)),
  );
  signal.addEventListener('abort', () => settle(ABANDONED), { once: true });
  return within(answered, 'the answer', timeoutMs)
    .catch((): Answer => ({ type: 'silent', why: `no answer within ${timeoutMs} ms` }))
    .then((answer) => {
      isOver = true;
      if (events !== undefined) return answer;
      abandonDial();
      far?.terminate();
      return answer;
    });
}

function meaningOf({ status, code }: DialFailure): Answer {
  if (code === 'ECONNREFUSED' || GONE.has(status)) return { type: 'gone' };
  if (code === 'ECONNRESET') return { type: 'broken', why: code };
  return { type: 'silent', why: code ?? `HTTP ${status}` };
}

function meaningOfClose(code: number, reason: string): Answer {
  if (code === NOT_RESUMED) {
    const refusals: readonly string[] = Object.values(ResumeRefusal);
    const known = refusals.includes(reason) ? (reason as ResumeRefusal) : ResumeRefusal.UNKNOWN_SESSION;
    return { type: 'refused', refusal: known };
  }
  if (code === CloseCode.ABNORMAL) return { type: 'broken', why: 'the connection broke' };
  return { type: 'closed', code, reason };
}
