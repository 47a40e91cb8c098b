import { ProtocolError } from '@parlance/protocol/client';
import { type ForeignNames, foreignOption } from '@parlance/protocol/foreign-names';

/** Options of other clients, and a runtime that lacks something. Loaded when connect fails for one of these. */

const CREDENTIALS =
  'token has the credentials, or a function that returns them; browsers send the cookies of the server by themselves';
const RECONNECT =
  'reconnect: { minDelayMs, maxDelayMs } has the delays, and reconnect: false never connects again';
const ALONE = 'each call of connect opens a session of its own; tabs share one with shared: true';

const FOREIGN: ForeignNames = {
  auth: CREDENTIALS,
  headers: CREDENTIALS,
  extraHeaders: CREDENTIALS,
  query: CREDENTIALS,
  withCredentials: CREDENTIALS,
  onMessage: 'messages are read with for await (const message of session)',
  onmessage: 'messages are read with for await (const message of session)',
  onOpen: 'connect resolves when the session is there; session.on("state", …) tells what follows',
  onClose:
    'session.closed resolves when the session is over; session.on("state", …) tells of lost connections',
  path: 'the URL has the path, such as wss://app.example/session',
  pingInterval: 'timers: { pingIntervalMs } has it',
  pingTimeout: 'timers: { pongTimeoutMs } has it',
  heartbeat: 'sessions ask by themselves; timers: { pingIntervalMs, pongTimeoutMs } says when',
  timeout: 'timers: { acceptTimeoutMs } is for the connection; a request has timeoutMs',
  ackTimeout: 'timeoutMs of request and emit has it',
  reconnection: RECONNECT,
  reconnectionDelay: RECONNECT,
  reconnectionDelayMax: RECONNECT,
  reconnectionAttempts: `${RECONNECT}; connectWithinMs bounds the first attempts`,
  retries: `${RECONNECT}; the option retryUnsent of a call moves it to the next session`,
  autoConnect: 'call connect when the session is wanted',
  forceNew: ALONE,
  multiplex: ALONE,
  protocols: 'subprotocol has it',
  maxPayload: 'limits: { maxMessageSize } has it',
  rejectUnauthorized: 'set NODE_EXTRA_CA_CERTS to the file of the certificate',
};

/**
 * @param own the options of `connect`.
 * @returns the error for a runtime that lacks what each session needs, or for an option that another library has; else the one that was found.
 */
export function explained(options: unknown, own: object, found: unknown): unknown {
  const isBare = !globalThis.crypto?.getRandomValues;
  if (!isBare) return foreignOption(options, own, FOREIGN) ?? found;
  return new ProtocolError(
    'unsupported',
    'this runtime has no crypto.getRandomValues, which every session needs: load a polyfill before connect is called, such as react-native-get-random-values in React Native',
    { cause: found },
  );
}
