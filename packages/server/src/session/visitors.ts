import type { IncomingMessage } from 'node:http';
import {
  type Capabilities,
  CloseReason,
  createSession,
  ProtocolError,
  type RequestHandler,
  type Session,
  Subprotocol,
} from '@parlance/protocol';
import {
  createSweep,
  Endpoint,
  resolveCapabilities,
  sweepInterval,
  systemClock,
} from '@parlance/protocol/internal';
import { memoryKeys } from '../transport/http/addresses.js';
import type { Door, Peer } from '../transport/http/door.js';
import { createLoopback } from '../transport/loopback.js';
import type { Transport, TransportEvents } from '../transport/transport.js';
import { countedPrincipal } from './admission/authentication.js';
import {
  type Identified,
  identifyPeer,
  refusedError,
  type Stated,
  turnedAwayError,
} from './admission/identify.js';
import type { SessionHost } from './host.js';

/** Clients of features: they come over HTTP or a protocol of their own, and may have a session within this process. */

/** A client that the application's `authenticate` knows, without a session. */
export interface Visitor {
  /** The client's address, as reported by trusted proxies if there are any. */
  readonly ip: string;
  /** The account that the client belongs to; without `authenticate`, a name that the server has made up. */
  readonly principal: string;
  readonly agentId: string | undefined;
}

export interface VisitorSessionOptions {
  /** Handles the requests of the server to this client. @default they are refused with `unsupported` */
  readonly onRequest?: RequestHandler | undefined;
}

export class Visitors {
  readonly #host: SessionHost;
  readonly #door: Pick<Door, 'enterOnce'>;
  readonly #known = new WeakMap<Visitor, Identified & { readonly peer: Peer }>();
  #sweep: ReturnType<typeof createSweep> | undefined;

  constructor(host: SessionHost, door: Pick<Door, 'enterOnce'>) {
    this.#host = host;
    this.#door = door;
  }

  async identify(request: IncomingMessage, stated: Stated = {}): Promise<Visitor> {
    const arrival = this.#door.enterOnce(request);
    if ('status' in arrival) throw turnedAwayError(arrival);
    if (arrival.refusal !== undefined) throw refusedError(arrival.refusal);
    const found = await identifyPeer(arrival, stated, false, this.#host);
    if (!('identity' in found)) throw refusedError(found);
    const { principal, agentId } = found.identity;
    const visitor = { ip: arrival.ip, principal, agentId };
    this.#known.set(visitor, { ...found, peer: arrival });
    return visitor;
  }

  async session(visitor: Visitor, { onRequest }: VisitorSessionOptions = {}): Promise<Session> {
    const known = this.#known.get(visitor);
    if (known === undefined)
      throw new ProtocolError(
        'invalid_argument',
        'session: a visitor of identify of this server is expected',
      );
    const { identity, peer } = known;
    const { options, memory } = this.#host;
    const { limits, timers, security } = options;
    const capabilities = offerFor(this.#host);
    this.#sweep ??= createSweep(sweepInterval(timers));
    const sweep = this.#sweep;
    const keys = memoryKeys(peer.ip, countedPrincipal(identity.principal, options));
    return await new Promise<Session>((resolve, reject) => {
      const [theirs, ours] = createLoopback();
      const endpoint: VisitorEndpoint = new VisitorEndpoint({
        role: 'client',
        core: createSession({
          role: 'client',
          subprotocol: Subprotocol.BINARY,
          ...{ capabilities, limits, timers, security },
          get timeOrigin() {
            return systemClock.timeOrigin;
          },
        }),
        clock: systemClock,
        ...{ limits, memory, security, onRequest },
        logger: options.logger,
        onReady: () => resolve(endpoint.session),
        onGoAway: () => endpoint.handleGoAway(),
        onApplied: () => endpoint.handleApplied(),
        onEnded(error) {
          sweep.delete(endpoint);
          reject(failureOf(error));
        },
      });
      endpoint.keys = keys;
      sweep.add(endpoint);
      this.#host.begin(theirs, { ...peer, identified: known }, Subprotocol.BINARY, undefined);
      endpoint.connect(ours);
    });
  }
}

/** Within a process nothing is saved by coding, and no connection is lost. */
function offerFor(host: SessionHost): Capabilities {
  const { limits, security } = host.options;
  const { algorithms, encodings } = host.sessionOptions(Subprotocol.BINARY).capabilities;
  const isPlain = algorithms.includes('NONE');
  const coding = isPlain ? { algorithms: ['NONE'] as const, encodings: [] } : { algorithms, encodings };
  return resolveCapabilities({ ...coding, security, extensions: { resume: false, context: false } }, limits);
}

/** Why the session has not begun, or has ended. */
function failureOf(error: ProtocolError | undefined): ProtocolError {
  if (error === undefined)
    return new ProtocolError('session_closed', 'the session was closed while it began');
  return error.code === 'rejected' ? refusedError(error) : error;
}

/** The client's end of a session within this process. */
class VisitorEndpoint extends Endpoint implements TransportEvents {
  keys: readonly string[] = [];
  #isLeaving = false;

  override get memoryKeys(): readonly string[] {
    return this.keys;
  }
  protected override get closeReason(): CloseReason {
    return CloseReason.CLIENT_SHUTDOWN;
  }
  override get reachesAgents(): boolean {
    return true;
  }
  override get ends(): { readonly source: string; readonly target: string } {
    return { source: this.agentId ?? '', target: '' };
  }

  connect(wire: Transport): void {
    wire.listen(this);
    this.handleConnected(wire);
  }

  /** The server drains: the session closes when nothing is under way. */
  handleGoAway(): void {
    this.#isLeaving = true;
  }

  handleApplied(): void {
    if (!this.#isLeaving || this.hasEnded || this.openReplies > 0 || !this.isIdle) return;
    this.#isLeaving = false;
    void this.close();
  }

  onMessage(data: Uint8Array | string): void {
    this.handleMessage(data);
  }
  onData(): void {}
  onControl(): void {}
  onDrain(): void {
    this.handleWritable();
  }
  onClose(code: number, reason: string): void {
    this.handleDisconnected(code, reason);
  }
  onFault(error: unknown): void {
    this.crash(error);
  }
}
