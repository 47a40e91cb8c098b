import { type BodyForm, formOf } from '../codec/algorithms.js';
import type { LastSelection } from '../codec/auto/deferred.js';
import type { ContextUse } from '../link/context-coding.js';
import { LinkCodec } from '../link/frame.js';
import type { CodedBody } from '../link/link.js';
import type { ReceivedBody } from '../link/reassembly.js';

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

interface Counter {
  messages: number;
  codedBytes: number;
  contentBytes: number;
}

/** By codec number: an array is the cheapest map there is on the data path. */
type Counters = (Counter | undefined)[];

type CountedBody = Pick<CodedBody, 'codec' | 'bytes' | 'originalLength' | 'late'>;

/** Counts what a session sends and receives. */
export class StatsRecorder {
  #sentBytes = 0;
  #receivedBytes = 0;
  /** Made with the first body: most sessions of a server wait. */
  #sent: Counters | undefined;
  #received: Counters | undefined;

  sent(wireBytes: number): void {
    this.#sentBytes += wireBytes;
  }

  received(wireBytes: number): void {
    this.#receivedBytes += wireBytes;
  }

  /** A body that is coded when it is written counts then. */
  sentBody({ codec, bytes, originalLength, late }: CountedBody): void {
    if (late !== undefined) return;
    this.#sent ??= [];
    count(this.#sent, codec, bytes.length, originalLength);
  }

  receivedBody({ codec, bytes, originalLength }: ReceivedBody): void {
    this.#received ??= [];
    count(this.#received, codec, bytes.length, originalLength ?? bytes.length);
  }

  /** A tensor of `length` bytes with everything around it. */
  sentTensor(length: number): void {
    this.#sent ??= [];
    count(this.#sent, LinkCodec.AVP, length, length);
  }

  receivedTensor(length: number): void {
    this.#received ??= [];
    count(this.#received, LinkCodec.AVP, length, length);
  }

  snapshot(
    now: Pick<
      SessionStats,
      | 'queuedBytes'
      | 'blockedOnCredit'
      | 'blockedOnRate'
      | 'openStreams'
      | 'roundTripMs'
      | 'lastSelection'
      | 'context'
    >,
  ): SessionStats {
    return {
      sent: summarize(this.#sentBytes, this.#sent),
      received: summarize(this.#receivedBytes, this.#received),
      ...now,
    };
  }
}

function count(counters: Counters, codec: LinkCodec, codedBytes: number, contentBytes: number): void {
  let counter = counters[codec];
  if (counter === undefined) {
    counter = { messages: 0, codedBytes: 0, contentBytes: 0 };
    counters[codec] = counter;
  }
  counter.messages++;
  counter.codedBytes += codedBytes;
  counter.contentBytes += contentBytes;
}

function summarize(wireBytes: number, counters: Counters = []): DirectionStats {
  const byAlgorithm: Partial<Record<BodyForm, AlgorithmStats>> = {};
  let messages = 0;
  let contentBytes = 0;
  for (const [codec, counter] of counters.entries()) {
    if (counter === undefined) continue;
    messages += counter.messages;
    contentBytes += counter.contentBytes;
    byAlgorithm[formOf(codec as LinkCodec)] = { ...counter };
  }
  return { messages, wireBytes, contentBytes, byAlgorithm };
}
