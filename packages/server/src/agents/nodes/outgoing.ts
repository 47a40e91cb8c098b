import { ERROR_CODES, ProtocolError, type ReceivedBody, type Undelivered } from '@parlance/protocol';
import { decodeFailure } from '@parlance/protocol/internal';
import type { Link, LinkEnd } from '../../cluster/link/link.js';
import { countField, type LinkMessage, malformed, textField } from '../../cluster/link/message.js';
import type { Relay } from '../relay.js';
import type { RelayTarget } from '../target.js';
import { AGENTS, type RelayMessageType, readBody } from './messages.js';
import type { RemoteTarget, TargetWire } from './remote-target.js';

export interface OutgoingOptions {
  readonly relay: Relay;
  /** The session of a target is over, or nothing is known of it any more. */
  readonly onTargetEnded: (target: RemoteTarget) => void;
  /** Deepest nesting of JSON in an error. */
  readonly maxDepth: number;
  readonly onOver: () => void;
}

/** A session that has moved to the other node, of whose messages this one keeps account. */
export interface MovedSession {
  readonly id: string;
  /** The connection is over. */
  handleLost(): void;
}

/** The end of a link on which agents of this node write to agents of another one. */
export class OutgoingRelay implements LinkEnd, TargetWire {
  readonly #link: Link;
  readonly #options: OutgoingOptions;
  /** Targets that have something under way or may have, by way. */
  readonly #ways = new Map<number, RemoteTarget>();
  readonly #requests = new Map<number, { readonly target: RemoteTarget; readonly source: RelayTarget }>();
  readonly #sources = new Map<RelayTarget, number>();
  readonly #moved = new Map<string, MovedSession>();
  #lastSource = 0;

  constructor(link: Link, options: OutgoingOptions) {
    this.#link = link;
    this.#options = options;
  }

  send(type: RelayMessageType, fields: readonly unknown[], ...parts: readonly Uint8Array[]): void {
    if (type === 'read') this.#link.quota.release(fields[0] as number, fields[1] as number);
    this.#link.send(AGENTS, type, fields, ...parts);
  }

  use(way: number, target: RemoteTarget): void {
    this.#ways.set(way, target);
    this.send('use', [way, target.id]);
  }

  leave(way: number): void {
    if (this.#ways.delete(way)) this.send('leave', [way]);
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

  open(ref: number, target: RemoteTarget, source: RelayTarget): void {
    this.#requests.set(ref, { target, source });
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

  /** Reports what was under way. */
  handleOver(): void {
    // Nothing was sent before the connection was open.
    const isCertain = !this.#link.isOpen;
    this.#options.onOver();
    const requests = [...this.#requests];
    this.#requests.clear();
    const targets = new Set([...this.#ways.values(), ...requests.map(([, { target }]) => target)]);
    this.#ways.clear();
    for (const target of targets) {
      const refs = requests.filter(([, each]) => each.target === target).map(([ref]) => ref);
      this.#endTarget(target, refs, isCertain);
    }
    for (const moved of this.#moved.values()) moved.handleLost();
    this.#moved.clear();
  }

  #endTarget(target: RemoteTarget, refs: readonly number[], isCertain: boolean, way?: number): void {
    const { relay } = this.#options;
    const loss = target.handleLost(this, way, isCertain);
    if (loss === 'all') return this.#forgetTarget(target, isCertain);
    // Messages are sent again, or are on their way to where the session is now. A node that cannot be reached fails also
    // the requests that wait for it.
    for (const ref of isCertain ? [...refs, ...target.waitingRequests] : refs) {
      relay.requests.handleLost(target, ref, isCertain);
      target.forget(ref);
    }
    if (loss.messages > 0) relay.messages.handleLost(target, loss, isCertain);
  }

  // --- of sessions that have moved to the other node

  /** From now on, this connection carries reports about the messages of a session. @param way to it, of `target`. */
  keepAccount(moved: MovedSession, way: number, target: RemoteTarget): void {
    this.#moved.set(moved.id, moved);
    this.#ways.set(way, target);
    this.send('account', [moved.id, way]);
  }

  report({ id }: MovedSession, { to, outcome, code, first, count }: Undelivered): void {
    this.send('report', [id, to, outcome, code, first ?? 0, count]);
  }

  /** All messages of the session are confirmed or reported. */
  settle({ id }: MovedSession): void {
    if (this.#moved.delete(id)) this.send('settled', [id]);
  }

  handle({ type, fields, bytes }: LinkMessage): void {
    const { relay, maxDepth } = this.#options;
    switch (type) {
      case 'ready':
      case 'hold':
      case 'again':
      case 'taken':
      case 'written':
      case 'confirmed':
      case 'refused':
      case 'lost':
      case 'gone':
        return this.#handleWay(type, countField(fields[0]), fields.slice(1));
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
        return target.intake.take(ref, 0, () => {
          this.#forget(ref, target);
          relay.requests.takeReply(target, { type, streamId: ref }, undefined);
        });
      case 'fail': {
        const error = decodeFailure(bytes, maxDepth);
        return target.intake.take(ref, 0, () => {
          this.#forget(ref, target);
          relay.requests.takeReply(target, { type: 'failure', streamId: ref, error }, undefined);
        });
      }
      case 'reject': {
        const error = errorOf(fields[1], fields[2]);
        return target.intake.take(ref, 0, () => {
          this.#forget(ref, target);
          relay.requests.reject(target, ref, error);
        });
      }
      default:
        throw malformed();
    }
  }

  #handleWay(
    type: 'ready' | 'hold' | 'again' | 'taken' | 'written' | 'confirmed' | 'refused' | 'lost' | 'gone',
    way: number,
    fields: readonly unknown[],
  ): void {
    const { relay } = this.#options;
    const target = this.#ways.get(way);
    if (type === 'hold') {
      target?.handleHold(way);
      return this.#link.answer(AGENTS, 'holding', [way, countField(fields[0])]);
    }
    if (target === undefined) return;
    if (type === 'ready') return target.handleReady(way);
    if (type === 'again') {
      this.#ways.delete(way);
      return target.handleAgain(way);
    }
    const number = countField(fields[0]);
    switch (type) {
      case 'taken':
        return target.handleTaken(number);
      case 'written':
        return target.handleWritten(way, number, countField(fields[1]), countField(fields[2]));
      case 'confirmed':
        return target.handleConfirmed(way, number);
      case 'refused':
      case 'lost': {
        const error = type === 'refused' ? errorOf(fields[1], fields[2]) : undefined;
        const place = target.handleRefused(number);
        if (place >= 0) relay.messages.handleRefused(target, place, error);
        return;
      }
    }
    target.handleConfirmed(way, number);
    this.#ways.delete(way);
    const refs = [...this.#requests].filter(([, each]) => each.target === target).map(([ref]) => ref);
    for (const ref of refs) {
      this.#requests.delete(ref);
      this.#link.quota.forget(ref);
    }
    this.#endTarget(target, refs, true, way);
  }

  #forgetTarget(target: RemoteTarget, isCertain: boolean): void {
    const { relay, onTargetEnded } = this.#options;
    relay.handleEnded(target, isCertain);
    onTargetEnded(target);
    target.reset();
  }

  #handleReply(type: 'part' | 'response', ref: number, target: RemoteTarget, body: ReceivedBody): void {
    const { relay } = this.#options;
    const asker = relay.requests.askerOf(target, ref);
    if (asker === undefined) {
      this.#link.quota.release(ref, body.charge);
      this.#link.answer(AGENTS, 'read', [ref, body.charge]);
      if (type === 'response') this.#forget(ref, target);
      return;
    }
    const hasRoom = this.#link.quota.tryHold(ref, body.charge);
    const fail = (error: unknown) => {
      this.send('cancel', [ref]);
      this.send('read', [ref, body.charge]);
      this.#forget(ref, target);
      relay.requests.fail(target, ref, relay.transit.reasonOf(error, target.agentId));
    };
    let size: number;
    try {
      if (!hasRoom)
        throw new ProtocolError('over_budget', 'too much from the other node waits to be written');
      size = relay.transit.memoryOf(body, target, asker);
    } catch (error) {
      return fail(error);
    }
    target.intake.take(
      ref,
      size,
      (reservation) => {
        target.owe(ref, body.charge);
        if (type === 'response') this.#forget(ref, target);
        if (relay.requests.takeReply(target, { type, streamId: ref, body }, reservation)) return;
        reservation?.release();
        target.core.channel.consume(ref, body.charge);
      },
      fail,
    );
  }

  #forget(ref: number, target: RemoteTarget): void {
    this.#requests.delete(ref);
    this.#link.quota.forget(ref);
    target.intake.drop(ref);
    target.forget(ref);
  }
}

function errorOf(code: unknown, message: unknown): ProtocolError {
  const known = codeOf(textField(code));
  return new ProtocolError(known ?? 'internal', textField(message), { side: 'remote' });
}

function codeOf(text: string): ProtocolError['code'] | undefined {
  return Object.hasOwn(ERROR_CODES, text) ? (text as ProtocolError['code']) : undefined;
}
