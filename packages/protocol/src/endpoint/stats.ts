import { type BodyForm, formOf } from '../codec/algorithms.js';
import type { LastSelection } from '../codec/auto/deferred.js';
import { BodyCodec, BodyCounts, type BodyRole, countTokens, type ReceivedBody } from '../codec/body.js';
import type { ContextUse } from '../link/context-coding.js';
import type { Channel, SessionCore } from '../session/types.js';
import type { Traffic } from './traffic.js';

/** Counters of one algorithm in one direction. */
export interface AlgorithmStats {
  readonly messages: number;
  /** Bytes of the coded bodies, without frame headers. */
  readonly codedBytes: number;
  /**
   * Bytes of the content before coding. A received body counts with the length that it states; one of token IDs with that of
   * their text, once this end has decoded it; any other, and token IDs until then, with its coded size.
   */
  readonly contentBytes: number;
}

export interface DirectionStats {
  /** Messages, requests and parts. */
  readonly messages: number;
  /**
   * Bytes of all WebSocket messages, control messages included, without the frame headers of the WebSocket.
   */
  readonly wireBytes: number;
  /** Bytes of all content before coding. */
  readonly contentBytes: number;
  readonly byAlgorithm: Readonly<Partial<Record<BodyForm, AlgorithmStats>>>;
}

/** Counters of one session, since it began. */
export interface SessionStats {
  readonly sent: DirectionStats;
  readonly received: DirectionStats;
  /** Bodies wait for credit of the peer. */
  readonly blockedOnCredit: boolean;
  /** Bodies wait because of the rate limits that the peer announced. */
  readonly blockedOnRate: boolean;
  /** Server: the client sends as much as the rate limits allow, so that its other bodies wait there. */
  readonly peerBlockedOnRate: boolean;
  /** Bytes that wait to be written. */
  readonly queuedBytes: number;
  /** Streams that are open in either direction. */
  readonly openStreams: number;
  /** Milliseconds of the last PING; `undefined` before the first. */
  readonly roundTripMs: number | undefined;
  /** The last choice of `auto`, and its reasons; `undefined` before the first, and after ten idle seconds at a server. */
  readonly lastSelection: LastSelection | undefined;
  /** Messages that are kept in each direction to code others against; `undefined` without context coding. */
  readonly context: { readonly sent: ContextUse; readonly received: ContextUse } | undefined;
}

/** Counts what a session receives, and the bytes of its WebSocket messages in both directions. */
export class StatsRecorder {
  protected sentBytes = 0;
  protected receivedBytes = 0;
  /** Created with the first body. */
  #received: BodyCounts | undefined;

  /** Server: another connection carries the session from now on; `undefined` if the last one is gone. */
  attach?(wire: { readonly traffic?: Traffic } | undefined): void;

  sent(wireBytes: number): void {
    this.sentBytes += wireBytes;
  }

  received(wireBytes: number): void {
    this.receivedBytes += wireBytes;
  }

  /** Counts of the received bodies; `undefined` before the first one. */
  get receivedBodies(): BodyCounts | undefined {
    return this.#received;
  }

  receivedBody(body: ReceivedBody, role?: BodyRole): void {
    const { codec, bytes, originalLength, content } = body;
    this.#received ??= new BodyCounts();
    const length = originalLength ?? content?.length ?? bytes.length;
    const count = this.#received.add(codec, bytes.length, length, role);
    if (codec === BodyCodec.TOKEN_NATIVE) body.count = count;
    this.#received.tokens += countTokens(codec, bytes);
  }

  /** @param length bytes of the tensor, including its head. */
  receivedTensor(length: number): void {
    this.#received ??= new BodyCounts();
    this.#received.add(BodyCodec.AVP, length, length, 'requests');
  }

  /** @param lastSelection see {@link SessionStats.lastSelection}. */
  snapshot(core: CountedCore, lastSelection: LastSelection | undefined, now: number): SessionStats {
    const { channel } = core;
    return {
      sent: summarize(this.sentBytes, channel.sentBodies),
      received: summarize(this.receivedBytes, this.#received),
      blockedOnCredit: core.isBlockedOnCredit,
      blockedOnRate: core.isPaced,
      peerBlockedOnRate: core.isPeerPaced(now),
      queuedBytes: core.queuedBytes,
      openStreams: channel.openStreams,
      roundTripMs: core.roundTripMs,
      lastSelection,
      context: channel.contextUse,
    };
  }
}

/** The counters of a session core. */
export type CountedCore = Pick<
  SessionCore,
  'isBlockedOnCredit' | 'isPaced' | 'isPeerPaced' | 'queuedBytes' | 'roundTripMs'
> & {
  readonly channel: Pick<Channel, 'sentBodies' | 'openStreams' | 'contextUse'>;
};

function summarize(wireBytes: number, counts?: BodyCounts): DirectionStats {
  const byAlgorithm: Partial<Record<BodyForm, AlgorithmStats>> = {};
  let messages = 0;
  let contentBytes = 0;
  for (const [codec, count] of counts?.byCodec.entries() ?? []) {
    if (count === undefined) continue;
    const { bodies, codedBytes, contentBytes: decoded } = count;
    messages += bodies;
    contentBytes += decoded;
    byAlgorithm[formOf(codec as BodyCodec)] = { messages: bodies, codedBytes, contentBytes: decoded };
  }
  return { messages, wireBytes, contentBytes, byAlgorithm };
}
