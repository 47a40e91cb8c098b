import { ProtocolError } from '../errors.js';
import { MAX_STREAM_ID } from './header.js';

/**
 * Which streams of a session are open. The client opens odd IDs and the server even ones, each in
 * increasing order and never twice; a stream belongs to its opener until the far end has answered
 * with response, end or error.
 */

export type Side = 'client' | 'server';

export interface OpenStream {
  readonly id: number;
  /** Opened by this end. */
  readonly local: boolean;
  /** The opener said cancel; what still arrives or would be sent is dropped. */
  cancelled: boolean;
}

export interface StreamTable {
  /** Open streams of both ends. */
  readonly size: number;
  /** @throws {ProtocolError} `too_many_streams`, or `session_lost` where IDs are used up. */
  open(): OpenStream;
  /** @throws {ProtocolError} `bad_frame` for wrong parity or a used ID, `too_many_streams`. */
  accept(id: number): OpenStream;
  get(id: number): OpenStream | undefined;
  close(id: number): void;
  /** Whether `id` was ever opened, by either end; a frame for such a stream may arrive late. */
  wasOpened(id: number): boolean;
  all(): Iterable<OpenStream>;
}

/** @param maxLocal @param maxRemote open streams that this end and its peer may have at a time. */
export function createStreamTable(side: Side, maxLocal: number, maxRemote: number): StreamTable {
  const localParity = side === 'client' ? 1 : 0;
  const streams = new Map<number, OpenStream>();
  const openCount = { local: 0, remote: 0 };
  let nextLocal = side === 'client' ? 1 : 2;
  let lastRemote = 0;

  return {
    get size() {
      return streams.size;
    },

    open() {
      if (openCount.local >= maxLocal) {
        throw new ProtocolError(
          'too_many_streams',
          `${openCount.local} requests are open; the limit of ${maxLocal} leaves no room, await some of them`,
        );
      }
      if (nextLocal > MAX_STREAM_ID) {
        throw new ProtocolError('session_lost', 'the session has used up its stream IDs; connect anew');
      }
      const stream: OpenStream = { id: nextLocal, local: true, cancelled: false };
      nextLocal += 2;
      openCount.local++;
      streams.set(stream.id, stream);
      return stream;
    },

    accept(id) {
      if (id === 0 || id % 2 === localParity) {
        throw new ProtocolError('bad_frame', `stream ${id} is not the peer's to open`);
      }
      if (id <= lastRemote) {
        throw new ProtocolError(
          'bad_frame',
          `stream ${id} was opened already, the last one was ${lastRemote}`,
        );
      }
      if (openCount.remote >= maxRemote) {
        throw new ProtocolError(
          'too_many_streams',
          `stream ${id} is one more than the ${maxRemote} that may be open`,
        );
      }
      lastRemote = id;
      const stream: OpenStream = { id, local: false, cancelled: false };
      openCount.remote++;
      streams.set(id, stream);
      return stream;
    },

    get: (id) => streams.get(id),

    close(id) {
      const stream = streams.get(id);
      if (stream === undefined) return;
      streams.delete(id);
      openCount[stream.local ? 'local' : 'remote']--;
    },

    wasOpened: (id) => id !== 0 && (id % 2 === localParity ? id < nextLocal : id <= lastRemote),

    all: () => streams.values(),
  };
}
