import type { BodyPiece } from '@parlance/protocol';
import type { PartText, Reservation } from '@parlance/protocol/internal';
import type { RelayTarget } from './target.js';

/** A request from one session to another, and the replies that are on their way back. */
export class RelayedRequest {
  readonly source: RelayTarget;
  readonly sourceStream: number;
  readonly target: RelayTarget;
  /** The stream in the target's session; a negative number while the request waits for one. */
  targetStream = 0;
  /** Takes it out of the queue in which it waits. */
  leave: (() => void) | undefined;
  /** Of a tensor that waits: what has come after its first piece. */
  readonly pieces: Pick<BodyPiece, 'bytes' | 'charge'>[] = [];
  /** The requested agent, as its requester named it. */
  readonly to: string;
  readonly kind: 'request' | 'tensor';
  /** Number of the request's last frame, 0 until it is written. */
  lastFrame = 0;
  /** Credit of the source that the request holds until it is written. */
  held = 0;
  /** Text of reply parts in tokens, if they are coded again. */
  partText: PartText | undefined;
  /** Credit of the target that replies hold until they are written. */
  unreleased = 0;
  /** Replies that are not written yet. */
  unwritten = 0;
  /** Memory to code those replies again. */
  readonly reservations = new Set<Reservation>();
  /** Memory to code the request again, until it is written. */
  readonly #reservation: Reservation | undefined;

  constructor(
    source: RelayTarget,
    sourceStream: number,
    target: RelayTarget,
    to: string,
    kind: 'request' | 'tensor',
    reservation?: Reservation,
  ) {
    this.source = source;
    this.sourceStream = sourceStream;
    this.target = target;
    this.to = to;
    this.kind = kind;
    this.#reservation = reservation;
  }

  /** It waits until its target may have another stream. */
  get isWaiting(): boolean {
    return this.targetStream < 0;
  }

  /** @param lastFrame number of the request's last frame. */
  handleWritten(lastFrame: number): void {
    this.lastFrame = lastFrame;
    this.#reservation?.release();
  }

  /** The request will not be written. */
  handleDropped(): void {
    this.#reservation?.release();
    this.leave?.();
  }
}

/** The relayed requests that one session takes part in. */
export interface PeerState {
  /** Its requests to others, by its own stream. */
  readonly sent: Map<number, RelayedRequest>;
  /** Requests of others to it, by the stream that leads to it. */
  readonly received: Map<number, RelayedRequest>;
  /** Its requests that are answered, but whose replies are not all written. */
  readonly answered: Set<RelayedRequest>;
}

/** The relayed requests of all sessions, found by either end. */
export class RequestTable {
  readonly #peers = new Map<RelayTarget, PeerState>();
  #lastWaiting = 0;

  /** The request that `source` has sent on this stream. */
  sentBy(source: RelayTarget, sourceStream: number): RelayedRequest | undefined {
    return this.#peers.get(source)?.sent.get(sourceStream);
  }

  /** The request that has reached `target` on this stream. */
  receivedBy(target: RelayTarget, targetStream: number): RelayedRequest | undefined {
    return this.#peers.get(target)?.received.get(targetStream);
  }

  /** A request that waits, or has waited, for its stream may be added again. */
  add(request: RelayedRequest, targetStream: number): void {
    const { received } = this.#of(request.target);
    received.delete(request.targetStream);
    request.targetStream = targetStream;
    this.#of(request.source).sent.set(request.sourceStream, request);
    received.set(targetStream, request);
  }

  /** A request waits for a stream of its target. */
  addWaiting(request: RelayedRequest): void {
    this.add(request, --this.#lastWaiting);
  }

  /** The request is answered; it is kept until its replies are written. */
  handleAnswered(request: RelayedRequest): void {
    const state = this.#peers.get(request.source);
    state?.sent.delete(request.sourceStream);
    if (request.unwritten > 0) state?.answered.add(request);
    this.#peers.get(request.target)?.received.delete(request.targetStream);
  }

  /** All replies so far are written. */
  handleWritten(request: RelayedRequest): void {
    this.#peers.get(request.source)?.answered.delete(request);
  }

  isIdle(session: RelayTarget): boolean {
    const state = this.#peers.get(session);
    return state === undefined || state.sent.size + state.received.size + state.answered.size === 0;
  }

  /** The requests of a session to others, and of others to it. */
  of(session: RelayTarget): {
    readonly sent: readonly RelayedRequest[];
    readonly received: readonly RelayedRequest[];
  } {
    const state = this.#peers.get(session);
    return { sent: [...(state?.sent.values() ?? [])], received: [...(state?.received.values() ?? [])] };
  }

  /** The requests whose replies by `target` are not all written. */
  unwrittenBy(target: RelayTarget): RelayedRequest[] {
    const found: RelayedRequest[] = [];
    for (const { sent, answered } of this.#peers.values())
      for (const request of [...sent.values(), ...answered])
        if (request.target === target && request.unwritten > 0) found.push(request);
    return found;
  }

  /** Removes a session with its requests, and returns those. */
  remove(session: RelayTarget): PeerState | undefined {
    const state = this.#peers.get(session);
    if (state === undefined) return undefined;
    this.#peers.delete(session);
    for (const { target, targetStream } of state.sent.values())
      this.#peers.get(target)?.received.delete(targetStream);
    for (const { source, sourceStream } of state.received.values())
      this.#peers.get(source)?.sent.delete(sourceStream);
    return state;
  }

  #of(session: RelayTarget): PeerState {
    let state = this.#peers.get(session);
    if (state === undefined) {
      state = { sent: new Map(), received: new Map(), answered: new Set() };
      this.#peers.set(session, state);
    }
    return state;
  }
}
