import { ProtocolError } from '@parlance/protocol/client';
import { VERSION } from './protocol.js';

/**
 * One end of the way between a tab and the host of its session. Messages arrive in the order in which they are
 * posted, unless the other end is gone.
 */
export interface Pipe {
  /** @param transfer buffers that need not be copied, if the way can move them. */
  post(message: unknown, transfer?: readonly ArrayBuffer[]): void;
  /** Replaces the listener. Messages that arrive before there is one are kept, or lost if the pipe is a channel. */
  listen(onMessage: (message: unknown) => void): void;
  close(): void;
}

/** The pipe of a tab to a host that is ready. */
export interface HostPipe extends Pipe {
  /** A lock that the host holds; `undefined` if there are no locks. */
  readonly lock: string | undefined;
}

/** The part of `MessagePort` and `BroadcastChannel` that is used; Node has both. */
interface Messages {
  addEventListener(type: 'message' | 'messageerror', listener: (event: Event) => void): void;
  close(): void;
}

/** A pipe to a worker, or within a page. */
export function portPipe(port: MessagePort): Pipe {
  const listen = listenerOf(port);
  return {
    post: (message, transfer = []) => port.postMessage(message, [...transfer]),
    listen(onMessage) {
      listen(onMessage);
      port.start();
    },
    close: () => port.close(),
  };
}

/** A pipe between two tabs: a channel whose name only these two know. It copies everything. */
export function channelPipe(name: string): Pipe {
  const channel = new BroadcastChannel(name);
  return {
    post: (message) => channel.postMessage(message),
    listen: listenerOf(channel),
    close: () => channel.close(),
  };
}

function listenerOf(messages: Messages): Pipe['listen'] {
  let listener = (_message: unknown): void => {};
  messages.addEventListener('message', (event) => listener((event as MessageEvent<unknown>).data));
  // A message that cannot be copied into this thread is as unreadable as a malformed one.
  messages.addEventListener('messageerror', () => listener(undefined));
  return (onMessage) => {
    listener = onMessage;
  };
}

/**
 * Resolves with the pipe when its other end is a host of this version.
 *
 * @throws {ProtocolError} `unsupported` if it is one of another version.
 */
export function readyPipe(pipe: Pipe): Promise<HostPipe> {
  return new Promise((resolve, reject) => {
    pipe.listen((message) => {
      const { type, version, lock } = (message ?? {}) as Record<string, unknown>;
      if (type !== 'ready') return;
      if (version === VERSION) return resolve({ ...pipe, lock: typeof lock === 'string' ? lock : undefined });
      reject(new ProtocolError('unsupported', 'the shared worker that runs is of another version'));
    });
  });
}
