import { Algorithm, EncodingName, ProtocolError, type ReceivedBody } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import type { Relay } from '../agents/relay.js';
import type { RelayTarget } from '../agents/target.js';
import type { ServerWire, WireEvents } from '../http/ws.js';
import {
  chargeOf,
  countField,
  decodeRelayMessage,
  encodeRelayMessage,
  malformed,
  type RelayMessage,
  type RelayMessageType,
  readBody,
  textField,
} from './relay-message.js';
import { type RemoteHost, RemoteSource, type RemoteWire } from './remote-session.js';

export interface RelayInletOptions extends RemoteHost {
  readonly relay: Relay;
  /** The session of an agent of this node. */
  readonly find: (sessionId: string) => RelayTarget | undefined;
  /** Reserves memory to code a body again. @throws {ProtocolError} `over_budget`. */
  readonly reserve: (body: ReceivedBody, from: RelayTarget, to: RelayTarget) => Reservation | undefined;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: unknown) => void;
}

/** Senders of one node. */
const MAX_SOURCES = 100_000;

/** Messages of the other node to a session of this one. */
interface Inflow {
  written: number;
  confirmed: number;
  toldConfirmed: number;
}

/** The connection from another node, whose agents write on it to agents of this one. */
export class RelayInlet implements RemoteWire, WireEvents {
  readonly #wire: ServerWire;
  readonly #options: RelayInletOptions;
  readonly #sources = new Map<number, RemoteSource>();
  readonly #requests = new Map<number, RemoteSource>();
  readonly #inflows = new Map<string, Inflow>();
  #isOver = false;

  constructor(wire: ServerWire, options: RelayInletOptions) {
    this.#wire = wire;
    this.#options = options;
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (!this.#isOver) this.#wire.send(encodeRelayMessage(type, fields, ...parts));
  }

  /** Requests that are not over, or whose replies are under way. */
  get size(): number {
    return this.#requests.size;
  }

  /** Tells the other node what sessions have confirmed since. */
  handleTick(): void {
    for (const [id, inflow] of this.#inflows) {
      if (inflow.confirmed === inflow.toldConfirmed) continue;
      inflow.toldConfirmed = inflow.confirmed;
      this.send('confirmed', [id, inflow.confirmed]);
    }
  }

  /** A session of this node is over; the relay has ended what led to it. */
  handleEnded({ id }: RelayTarget): void {
    const inflow = this.#inflows.get(id);
    if (inflow === undefined) return;
    this.#inflows.delete(id);
    this.send('gone', [id, inflow.confirmed]);
  }

  end(why?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#wire.terminate();
    this.#options.onOver(why);
    this.#requests.clear();
    for (const source of this.#sources.values()) this.#close(source);
    this.#sources.clear();
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    try {
      this.#handle(decodeRelayMessage(data));
    } catch (error) {
      this.end(error);
    }
  }
  onClose(code: number, reason: string): void {
    this.end(new ProtocolError('connection_failed', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(error);
  }
  onDrain(): void {}
  onControl(): void {}
  onData(): void {}

  #handle({ type, fields, bytes }: RelayMessage): void {
    const number = countField(fields[0]);
    switch (type) {
      case 'open':
        return this.#open(number, fields);
      case 'close': {
        const source = this.#sources.get(number);
        if (source === undefined) return;
        this.#sources.delete(number);
        for (const [ref, asker] of this.#requests) if (asker === source) this.#requests.delete(ref);
        return this.#close(source);
      }
      case 'message':
      case 'request':
      case 'tensor': {
        const source = this.#sources.get(number);
        if (source === undefined) throw malformed();
        const [own, id] = [countField(fields[1]), textField(fields[2])];
        return this.#begin(type, source, own, id, fields.slice(3), bytes);
      }
    }
    const { relay } = this.#options;
    const source = this.#requests.get(number);
    if (source === undefined) return;
    switch (type) {
      case 'piece': {
        const charge = chargeOf(bytes.length);
        relay.requests.takeNextPiece(source, number, { bytes, charge });
        return;
      }
      case 'cancel':
        source.handleCancel(number);
        relay.requests.cancel(source, number);
        return;
      case 'read':
        return source.handleRead(number, countField(fields[1]));
      default:
        throw malformed();
    }
  }

  #open(number: number, [, id, principal, agentId, algorithms, encoding]: readonly unknown[]): void {
    if (this.#sources.has(number) || this.#sources.size >= MAX_SOURCES) throw malformed();
    const negotiated = readAgreement(algorithms, encoding);
    const agent = {
      sessionId: textField(id),
      principal: textField(principal),
      agentId: textField(agentId),
      negotiated,
    };
    this.#sources.set(
      number,
      new RemoteSource(agent, this.#options, this, (ref) => this.#requests.delete(ref)),
    );
  }

  #begin(
    type: 'message' | 'request' | 'tensor',
    source: RemoteSource,
    number: number,
    id: string,
    fields: readonly unknown[],
    bytes: Uint8Array,
  ): void {
    const { relay, find } = this.#options;
    if (type !== 'message') {
      if (this.#requests.has(number) || !source.begin(number)) throw malformed();
      this.#requests.set(number, source);
    }
    const target = find(id);
    // With it, `gone` is sent when the session ends.
    if (target !== undefined && !this.#inflows.has(id))
      this.#inflows.set(id, { written: 0, confirmed: 0, toldConfirmed: 0 });
    if (type === 'message') return this.#takeMessage(source, number, id, target, readBody(fields, bytes));
    if (target === undefined) {
      const gone = new ProtocolError(
        'peer_gone',
        'the session of the agent is over; it never had the request',
      );
      return source.tell((core) => core.channel.refuse(number, relay.transit.refuse(gone, id)));
    }
    if (type === 'tensor') {
      const piece = { bytes, totalLength: countField(fields[0]), charge: chargeOf(bytes.length) };
      if (bytes.length === 0 || piece.totalLength < bytes.length) throw malformed();
      return relay.requests.takeAdmittedTensor(source, number, target, piece);
    }
    const body = readBody(fields, bytes);
    let reservation: Reservation | undefined;
    try {
      reservation = this.#options.reserve(body, source, target);
    } catch (error) {
      const reason = relay.transit.refuse(error, id);
      return source.tell((core) => core.channel.refuse(number, reason));
    }
    relay.requests.takeAdmitted(source, number, target, body, reservation);
  }

  #takeMessage(
    source: RemoteSource,
    number: number,
    id: string,
    target: RelayTarget | undefined,
    body: ReceivedBody,
  ): void {
    const { relay, reserve } = this.#options;
    let reservation: Reservation | undefined;
    try {
      const inflow = this.#inflows.get(id);
      if (target === undefined || inflow === undefined)
        throw new ProtocolError('peer_gone', 'the session of the agent is over');
      const handleWritten = () => {
        inflow.toldConfirmed = inflow.confirmed;
        this.send('written', [id, ++inflow.written, inflow.confirmed]);
      };
      const handleConfirmed = () => {
        inflow.confirmed++;
      };
      reservation = reserve(body, source, target);
      relay.messages.takeAdmitted(source, target, body, { handleWritten, handleConfirmed }, reservation);
    } catch (error) {
      reservation?.release();
      const { code, message } = relay.transit.reasonOf(error, id);
      this.send('refused', [id, number, code, message.slice(0, 1_024)]);
    }
  }

  #close(source: RemoteSource): void {
    this.#options.relay.handleEnded(source);
    source.close();
  }
}

/** Unknown names are left out. */
export function readAgreement(algorithms: unknown, encoding: unknown): RemoteSource['negotiated'] {
  if (!Array.isArray(algorithms)) throw malformed();
  return {
    algorithms: Object.values(Algorithm).filter((name) => algorithms.includes(name)),
    encoding: Object.values(EncodingName).find((name) => name === encoding) ?? null,
  };
}
