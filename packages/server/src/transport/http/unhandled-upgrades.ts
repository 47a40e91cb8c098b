import type { Server as HttpServer, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { ProtocolError } from '@parlance/protocol';
import { addressKey, clientAddress } from './addresses.js';
import { Handshakes, MAX_HANDSHAKES } from './handshakes.js';
import type { HttpOptions } from './options.js';
import { refuseUpgrade } from './refuse-upgrade.js';
import { pathOf } from './site.js';

type UnhandledOptions = Pick<HttpOptions, 'path' | 'trustedProxies' | 'limits' | 'timers' | 'logger'>;

/** A listener of the event `upgrade`. */
type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** The paths of the listener of a session server. */
interface Served {
  /** Of its sessions. */
  readonly path: string;
  /** Its features take upgrades at a path. */
  readonly hasTarget: (path: string) => boolean;
}

/** By their listeners: several session servers may be attached to one HTTP server. */
const served = new WeakMap<object, Served>();

/**
 * Milliseconds that other listeners of an HTTP server have to touch the socket of an upgrade, or `helloTimeoutMs` if that is
 * less. Clients wait 5 s before they report that there is no answer; Socket.IO allows others 1 s.
 */
const UNTOUCHED_MS = 3_000;

/**
 * Upgrades for paths that no session server serves. Node leaves their sockets to the listeners of `upgrade`: if none
 * takes one, it is neither answered nor closed, and an error of it would end the process.
 *
 * Whether another listener takes a socket cannot be known at once, because it may wait for something first. So a socket
 * that no listener uses within `helloTimeoutMs` is answered with 404, earlier if none even listens to its errors, and at once if
 * there is no other listener. A listener that authenticates first listens to errors, but so does Vite to those of sockets it leaves.
 */
export class UnhandledUpgrades {
  readonly #options: UnhandledOptions;
  readonly #hasTarget: (path: string) => boolean;
  readonly #waiting: Handshakes<Duplex>;
  #hasWarned = false;
  readonly #answers = new WeakMap<Duplex, () => void>();

  /** @param hasTarget whether a feature takes upgrades at a path. */
  constructor(options: UnhandledOptions, hasTarget: (path: string) => boolean) {
    this.#options = options;
    this.#hasTarget = hasTarget;
    this.#waiting = new Handshakes(options.limits.handshakesPerIp, MAX_HANDSHAKES);
  }

  /**
   * @param listener serves sessions at the path of the options.
   * @throws {ProtocolError} `invalid_argument` if another session server serves them there.
   */
  register(listener: UpgradeListener, server: HttpServer): void {
    const { path } = this.#options;
    if (registered(server).some((each) => served.get(each)?.path === path)) {
      const why = `another session server is attached to that HTTP server at ${path}; give one of them another path, or detach the first`;
      throw new ProtocolError('invalid_argument', `attach: ${why}`);
    }
    served.set(listener, { path, hasTarget: this.#hasTarget });
  }

  /** The socket of an upgrade for our path was ended by another listener, which answers for paths that are not its own. */
  warnOfOther(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#options.logger.warn(
      { event: 'upgrade.taken', path: this.#options.path },
      'another listener of the HTTP server has ended an upgrade for the path of sessions, as ws does with { server, path }: ' +
        'attach this server first, or create that one with { noServer: true }',
    );
  }

  /** @param listener the registered one that got the event. */
  handle(request: IncomingMessage, socket: Duplex, server: HttpServer, listener: UpgradeListener): void {
    const ours = registered(server);
    // Another session server takes it, or takes care of it.
    if (takerOf(request, server) !== undefined || ours[0] !== listener) return;
    const paths = ours.map((each) => served.get(each)?.path);
    const answer = () =>
      refuseUpgrade(socket, 404, `Not found. The session endpoint is ${paths.join(' or ')}.`);
    if (ours.length === server.listenerCount('upgrade')) answer();
    else if (!isUsed(socket, writtenTo(socket))) this.#wait(request, socket, answer);
  }

  #wait(request: IncomingMessage, socket: Duplex, answer: () => void): void {
    const { trustedProxies, timers } = this.#options;
    const written = writtenTo(socket);
    socket.on('error', ignore);
    const settle = () => {
      clearTimeout(timer);
      this.#waiting.delete(socket);
      this.#answers.delete(socket);
      if (!isUsed(socket, written)) answer();
    };
    const firstMs = Math.min(UNTOUCHED_MS, timers.helloTimeoutMs);
    let timer = setTimeout(() => {
      if (isUsed(socket, written) || socket.listenerCount('error') === 1) settle();
      else timer = setTimeout(settle, timers.helloTimeoutMs - firstMs);
    }, firstMs);
    socket.once('close', settle);
    this.#answers.set(socket, settle);
    const evicted = this.#waiting.add(socket, addressKey(clientAddress(request, trustedProxies)));
    if (evicted !== undefined) this.#answers.get(evicted)?.();
  }
}

/**
 * The listener of the session server that takes an upgrade: it has its sessions at the path, or is the first one with a feature that
 * has the path.
 */
export function takerOf(request: IncomingMessage, server: HttpServer): UpgradeListener | undefined {
  const path = pathOf(request);
  if (path === undefined) return undefined;
  const ours = registered(server);
  return (
    ours.find((each) => served.get(each)?.path === path) ??
    ours.find((each) => served.get(each)?.hasTarget(path) === true)
  );
}

/** The listeners of session servers. */
function registered(server: HttpServer): readonly UpgradeListener[] {
  return server.listeners('upgrade').filter((each): each is UpgradeListener => served.has(each));
}

/** Whether a listener reads the socket, has ended it, or has written more than `written` bytes. Node itself leaves it unread. */
function isUsed(socket: Duplex, written: number): boolean {
  return (
    socket.destroyed ||
    socket.writableEnded ||
    socket.readableFlowing !== null ||
    socket.listenerCount('data') + socket.listenerCount('readable') > 0 ||
    writtenTo(socket) > written
  );
}

/** Bytes; the connection may have carried answers to earlier requests. */
function writtenTo(socket: Duplex): number {
  return 'bytesWritten' in socket && typeof socket.bytesWritten === 'number' ? socket.bytesWritten : 0;
}

const ignore = () => {};
