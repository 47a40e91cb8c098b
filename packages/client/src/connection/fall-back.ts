import { type Clock, CloseCode, type Wire } from '@parlance/protocol/client';
import { connectionFailure } from './cannot-connect.js';
import type { ClientTransport, ConnectionEvents, ConnectionFailure, Frame } from './transport.js';

/** How long a transport may say nothing before the other one is tried, in milliseconds. */
const PATIENCE_MS = 4_000;
/** A connection that is lost sooner after it has opened is one that a network does not let live. */
const SHORT_LIFE_MS = 5_000;
const MAX_SHORT_LIVES = 3;

/**
 * WebSockets. If one does not open or is silent, or if they do not live, the code of HTTP is loaded and takes over.
 *
 * @param load resolves to a transport that begins with HTTP, and whose first connection fails with `failure` if that does not open.
 */
export function fallBack(
  webSocket: ClientTransport,
  clock: Clock,
  load: (failure: ConnectionFailure) => Promise<ClientTransport>,
): ClientTransport {
  let shortLives = 0;
  const second = async (failure: ConnectionFailure): Promise<ClientTransport> => {
    shortLives = 0;
    usual = await load(failure);
    return usual;
  };
  const first: ClientTransport = {
    ...webSocket,
    extraMs: PATIENCE_MS,
    open(url, ...rest) {
      const lost = () => connectionFailure(url, 'its WebSockets were lost soon after they had opened');
      return openEither(url, ...rest, {
        first: shortLives < MAX_SHORT_LIVES ? webSocket : lost,
        second,
        clock,
        onAnswered: () => undefined,
        onLost(_by, isSoon) {
          shortLives = isSoon ? shortLives + 1 : 0;
        },
      });
    },
  };
  let usual = first;
  return {
    get name() {
      return usual.name;
    },
    get ifSilent() {
      return usual.ifSilent;
    },
    get extraMs() {
      return usual.extraMs;
    },
    open: (...connection) => usual.open(...connection),
  };
}

export interface Either {
  /** The one to begin with, or why it has not opened just now. */
  readonly first: ClientTransport | ConnectionFailure;
  /** Returns the one that is tried if the first has not opened. */
  readonly second: ((failure: ConnectionFailure) => Promise<ClientTransport>) | undefined;
  readonly clock: Clock;
  /** The first message is there. @returns what to call when the connection is over. */
  onAnswered(by: ClientTransport): (() => void) | undefined;
  /** A connection has ended without a close code. */
  onLost(by: ClientTransport, isSoon: boolean): void;
}

/** A connection by the first of two transports that opens one; HELLO is the same for both. */
export function openEither(
  url: URL,
  hello: () => Frame | undefined,
  events: ConnectionEvents,
  { first, second, clock, onAnswered, onLost }: Either,
): Wire {
  let frame: Frame | undefined;
  const sayHello = (): Frame | undefined => {
    frame ??= hello();
    return frame;
  };
  /** `undefined` before the second one is there. */
  let current: Wire | undefined;
  let stop: (() => void) | undefined;
  let isOpen = false;
  let isClosed = false;
  let isOver = false;
  const end: ConnectionEvents['onClose'] = (code, why, failure) => {
    if (isOver) return;
    isOver = true;
    stop?.();
    events.onClose(code, why, failure);
  };

  /** @param reason why the first one has not opened, which says most. */
  const open = (by: ClientTransport, reason?: ConnectionFailure): void => {
    let openedAt: number | undefined;
    let isAnswered = false;
    let cancel = (): void => {};
    const isFirst = reason === undefined && second !== undefined;
    const wire = by.open(url, sayHello, {
      onOpen(isSaid) {
        if (current !== wire) return;
        openedAt = clock.now();
        // Otherwise the answer to HELLO follows at once, unless something between holds it back.
        if (!isSaid) cancel();
        if (!isOpen) events.onOpen(isSaid);
        isOpen = true;
      },
      onMessage(data) {
        if (current !== wire) return;
        if (!isAnswered) {
          isAnswered = true;
          cancel();
          stop = onAnswered(by);
        }
        events.onMessage(data);
      },
      onWritable() {
        if (current === wire) events.onWritable();
      },
      onClose(code, why, failure) {
        if (current !== wire) return;
        cancel();
        if (isFirst && openedAt === undefined && !isClosed) {
          Promise.resolve(failure()).then((error) => {
            // Without a reason, it is tried again without HELLO in its request.
            if (error === undefined || isClosed) end(code, why, () => error);
            else goOn(() => error);
          });
          return;
        }
        const isLost = code === CloseCode.ABNORMAL;
        if (isLost && openedAt !== undefined) onLost(by, clock.now() - openedAt < SHORT_LIFE_MS);
        end(code, why, (isLost && reason) || failure);
      },
    });
    current = wire;
    if (!isFirst) return;
    cancel = clock.after(PATIENCE_MS, () => {
      goOn(() => connectionFailure(url, `no answer within ${PATIENCE_MS} ms; ${by.ifSilent}`));
      // The server may have read HELLO: another code would end the session.
      wire.close(CloseCode.TIMEOUT, '');
    });
  };
  const goOn = (failure: ConnectionFailure): void => {
    current = undefined;
    second?.(failure)
      .then((by) => {
        if (!isOver) open(by, failure);
      })
      .catch(() => end(CloseCode.ABNORMAL, '', failure));
  };

  if (typeof first === 'function') goOn(first);
  else open(first);
  return {
    get bufferedAmount() {
      return current?.bufferedAmount ?? 0;
    },
    get highWater() {
      return current?.highWater;
    },
    send: (data) => current?.send(data),
    close(code, why) {
      isClosed = true;
      stop?.();
      if (current === undefined) end(CloseCode.ABNORMAL, '', () => undefined);
      else current.close(code, why);
    },
  };
}
