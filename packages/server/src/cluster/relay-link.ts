import { ERROR_CODES, ProtocolError, type ReceivedBody } from '@parlance/protocol';
import { decodeFailure, type Reservation } from '@parlance/protocol/internal';
import type { Relay } from '../agents/relay.js';
import type { RelayTarget } from '../agents/target.js';
import type { ServerWire, WireEvents } from '../http/ws.js';
import {
  countField,
  decodeRelayMessage,
  encodeRelayMessage,
  malformed,
  type RelayMessage,
  type RelayMessageType,
  readBody,
  textField,
} from './relay-message.js';
import type { RemoteTarget, TargetWire } from './remote-session.js';

export interface RelayLinkOptions {
  readonly relay: Relay;
  readonly newRef: () => number;
  /** Reserves memory to code a reply again. @throws {ProtocolError} `over_budget`. */
  readonly reserve: (body: ReceivedBody, from: RelayTarget, to: RelayTarget) => Reservation | undefined;
  /** Deepest nesting of JSON in an error. */
  readonly maxDepth: number;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: unknown) => void;
}

/** The connection to another node, on which agents of this node write to agents of that one. */
export class RelayLink implements TargetWire, WireEvents {
  readonly #options: RelayLinkOptions;
  #wire: ServerWire | undefined;
  /** Waits for the connection. The windows of its senders bound it. */
  #waiting: Uint8Array[] = [];
  /** Targets that have something under way or may have, by session. */
  readonly #targets = new Map<string, RemoteTarget>();
  readonly #requests = new Map<number, { readonly target: RemoteTarget; readonly source: RelayTarget }>();
  readonly #sources = new Map<RelayTarget, number>();
  #lastSource = 0;
  #isOver = false;

  constructor(options: RelayLinkOptions) {
    this.#options = options;
  }

  /** The connection is open. */
  begin(wire: ServerWire): void {
    if (this.#isOver) return wire.terminate();
    this.#wire = wire;
    for (const message of this.#waiting.splice(0)) wire.send(message);
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (this.#isOver) return;
    const message = encodeRelayMessage(type, fields, ...parts);
    if (this.#wire === undefined) this.#waiting.push(message);
    else this.#wire.send(message);
  }

  use(target: RemoteTarget): void {
    this.#targets.set(target.id, target);
  }

  numberOf(source: RelayTarget): number {
    const known = this.#sources.get(source);
    if (known !== undefined) return known;
    const number = ++this.#lastSource;
    this.#sources.set(source, number);
    const { id, principal = '', agentId = '', negotiated } = source;
    const { algorithms, encoding } = negotiated;
    this.send('open', [number, id, principal, agentId, algorithms, encoding]);
    return number;
  }

  open(target: RemoteTarget, source: RelayTarget): number {
    const ref = this.#options.newRef();
    this.#requests.set(ref, { target, source });
    return ref;
  }

  /** A session of this node is over. */
  handleEnded(source: RelayTarget): void {
    const number = this.#sources.get(source);
    if (number === undefined) return;
    this.#sources.delete(source);
    // The other node answers none of them.
    for (const [ref, request] of this.#requests)
      if (request.source === source) this.#forget(ref, request.target);
    this.send('close', [number]);
  }

  /** Requests that are not answered. */
  get size(): number {
    return this.#requests.size;
  }

  /** Ends the connection, and reports what was under way. */
  end(why?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#wire?.terminate();
    const { relay, onOver } = this.#options;
    // Nothing was sent before the connection was open.
    const isCertain = this.#wire === undefined;
    onOver(why);
    this.#requests.clear();
    for (const target of this.#targets.values()) endTarget(relay, target, isCertain);
    this.#targets.clear();
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
    const { relay, maxDepth } = this.#options;
    switch (type) {
      case 'written':
      case 'confirmed':
      case 'refused':
      case 'gone':
        return this.#handleSession(type, fields);
    }
    const ref = countField(fields[0]);
    const target = this.#requests.get(ref)?.target;
    // The request is over at this end.
    if (target === undefined) return;
    switch (type) {
      case 'credit':
        return target.handleCredit(ref, countField(fields[1]));
      case 'part':
      case 'response':
        return this.#handleReply(type, ref, target, readBody(fields.slice(1), bytes));
      case 'end':
        this.#forget(ref, target);
        relay.requests.takeReply(target, { type, streamId: ref }, undefined);
        return;
      case 'fail': {
        const error = decodeFailure(bytes, maxDepth);
        this.#forget(ref, target);
        relay.requests.takeReply(target, { type: 'failure', streamId: ref, error }, undefined);
        return;
      }
      case 'reject':
        this.#forget(ref, target);
        return relay.requests.reject(target, ref, errorOf(fields[1], fields[2]));
      default:
        throw malformed();
    }
  }

  #handleSession(
    type: 'written' | 'confirmed' | 'refused' | 'gone',
    [id, ...fields]: readonly unknown[],
  ): void {
    const { relay } = this.#options;
    const target = this.#targets.get(textField(id));
    if (target === undefined) return;
    const number = countField(fields[0]);
    if (type === 'written') return target.handleWritten(number, countField(fields[1]));
    if (type === 'refused') {
      const place = target.handleRefused(number);
      if (place >= 0) relay.messages.handleRefused(target, place, errorOf(fields[1], fields[2]));
      return;
    }
    target.handleConfirmed(number);
    if (type === 'confirmed') return;
    this.#targets.delete(target.id);
    for (const [ref, request] of this.#requests) if (request.target === target) this.#requests.delete(ref);
    endTarget(relay, target, true);
  }

  #handleReply(type: 'part' | 'response', ref: number, target: RemoteTarget, body: ReceivedBody): void {
    const { relay, reserve } = this.#options;
    const asker = relay.requests.askerOf(target, ref);
    if (type === 'response') this.#forget(ref, target);
    if (asker === undefined) return;
    try {
      const reservation = reserve(body, target, asker);
      relay.requests.takeReply(target, { type, streamId: ref, body }, reservation);
    } catch (error) {
      this.#forget(ref, target);
      relay.requests.fail(target, ref, relay.transit.reasonOf(error, target.agentId));
    }
  }

  #forget(ref: number, target: RemoteTarget): void {
    this.#requests.delete(ref);
    target.forget(ref);
  }
}

function endTarget(relay: Relay, target: RemoteTarget, isCertain: boolean): void {
  relay.handleEnded(target, isCertain);
  target.reset();
}

function errorOf(code: unknown, message: unknown): ProtocolError {
  const known = codeOf(textField(code));
  return new ProtocolError(known ?? 'internal', textField(message), { side: 'remote' });
}

function codeOf(text: string): ProtocolError['code'] | undefined {
  return Object.hasOwn(ERROR_CODES, text) ? (text as ProtocolError['code']) : undefined;
}
