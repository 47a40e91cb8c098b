import type { CallObserver } from '../engine/measured.js';
import type { Refusal } from '../transport/http/site.js';

/**
 * Observes sessions and gateways of a server, beyond the figures that it reads from them. There is none without
 * metrics.
 */
export interface SessionObserver {
  /** A PONG has arrived. */
  handleRoundTrip(seconds: number): void;
  /** A peer or an address has met a limit. @param limit one of the server's own names for limits. */
  handleLimited(limit: string): void;
  /** A tensor was taken whole, or was not, or its session was over before. */
  handleTransfer(direction: 'sent' | 'received', outcome: TransferOutcome): void;
  /** The upstream of a gateway has begun to answer, or has not. */
  handleUpstream(attempt: UpstreamAttempt): void;
  /** A request to a gateway is over. @param tokens `undefined` if the upstream reported none. */
  handleTokens(model: string | undefined, tokens: TokenUsage | undefined): void;
}

/** Observes the server itself as well. */
export interface ServerObserver extends SessionObserver, CallObserver {
  handleNotResumed(reason: string): void;
  handleRefused(refusal: Refusal): void;
}

export type TransferOutcome = 'whole' | 'refused' | 'cancelled' | 'lost';

export interface UpstreamAttempt {
  /** As the client has named it. */
  readonly model: string | undefined;
  /** `undefined` if no response began. */
  readonly status: number | undefined;
  readonly isRetry: boolean;
  /** Until the head of the response, or the failure. */
  readonly seconds: number;
}

export interface TokenUsage {
  /** Tokens in the request. */
  readonly promptTokens: number;
  /** Tokens in the answer. */
  readonly completionTokens: number;
}
