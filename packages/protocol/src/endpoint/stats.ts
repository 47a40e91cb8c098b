import { type BodyForm, formOf } from '../codec/algorithms.js';
import type { LastSelection } from '../codec/auto/deferred.js';
import { BodyCodec, BodyCounts, type ReceivedBody } from '../codec/body.js';
import type { ContextUse } from '../link/context-coding.js';
import type { Channel, SessionCore } from '../session/types.js';

/** Counters of one algorithm in one direction. */
export interface AlgorithmStats {
  readonly messages: number;
  /** Coded bytes of bodies, headers excluded. */
  readonly codedBytes: number;
  /**
   * Bytes of the content before coding. A received body counts with what it states, or with its
   * coded size where it states nothing, as token IDs do.
   */
  readonly contentBytes: number;
}

export interface DirectionStats {
  /** Messages, requests and parts. */
  readonly messages: number;
  /** Bytes of all WebSocket messages, control included; frames of the WebSocket itself excluded. */
  readonly wireBytes: number;
  readonly contentBytes: number;
  readonly byAlgorithm: Readonly<Partial<Record<BodyForm, AlgorithmStats>>>;
}

export interface SessionStats {
  readonly sent: DirectionStats;
  readonly received: DirectionStats;
  /** Waits for the peer to take more. */
  readonly blockedOnCredit: boolean;
  /** Waits for the rates that the peer has announced. */
  readonly blockedOnRate: boolean;
  readonly queuedBytes: number;
  readonly openStreams: number;
  /** Milliseconds of the last PING, `undefined` before the first. */
  readonly roundTripMs: number | undefined;
  /** What `auto` chose last, and why. */
  readonly lastSelection: LastSelection | undefined;
  /** Messages that are kept of either direction to code others against, where that was agreed. */
  readonly context: { readonly sent: ContextUse; readonly received: ContextUse } | undefined;
}

/** Counts what a session receives, and the bytes of its WebSocket messages in both directions. */
export class StatsRecorder {
  #sentBytes = 0;
  #receivedBytes = 0;
  /** Created with the first body. */
  #received: BodyCounts | undefined;

  sent(wireBytes: number): void {
    this.#sentBytes += wireBytes;
  }

  received(wireBytes: number): void {
    this.#receivedBytes += wireBytes;
  }

  receivedBody({ codec, bytes, originalLength }: ReceivedBody): void {
    this.#received ??= new BodyCounts();
    this.#received.add(codec, bytes.length, originalLength ?? bytes.length);
  }

  /** A tensor of `length` bytes, its frame included. */
  receivedTensor(length: number): void {
    this.#received ??= new BodyCounts();
    this.#received.add(BodyCodec.AVP, length, length);
  }

  /** @param lastSelection see {@link SessionStats.lastSelection}. */
  snapshot(core: CountedCore, lastSelection: LastSelection | undefined): SessionStats {
    const { channel } = core;
    return {
      sent: summarize(this.#sentBytes, channel.sentBodies),
      received: summarize(this.#receivedBytes, this.#received),
      blockedOnCredit: core.isBlockedOnCredit,
      blockedOnRate: core.isPaced,
      queuedBytes: core.queuedBytes,
      openStreams: channel.openStreams,
      roundTripMs: core.roundTripMs,
      lastSelection,
      context: channel.contextUse,
    };
  }
}

/** The part of a session core that counts. */
export type CountedCore = Pick<
  SessionCore,
  'isBlockedOnCredit' | 'isPaced' | 'queuedBytes' | 'roundTripMs'
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
