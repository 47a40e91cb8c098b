import type { ResumeRefusal } from '@parlance/protocol';
import type { DurableRequest } from '../engine/logs/reply.js';
import { Service } from '../server/features/feature.js';
import type { LookupQuery } from '../session/admission/lookup.js';
import type { Refusal } from '../transport/http/site.js';

/** The feature that records sessions, as nodes use it. */
export interface DurableSessions {
  /** New sessions cannot be recorded at present. */
  readonly isStalled: boolean;
  /** Sessions that were taken over from nodes that have died. */
  readonly takenCount: number;
  /** Checks the engine, before others know of this node. @throws {ProtocolError} `unsupported`. */
  prepare(): Promise<void>;
  /** Takes a session whose node is `gone`. `busy` if the engine does not answer, or another node is faster. Never rejects. */
  takeOver(
    wanted: LookupQuery & { readonly gone: string },
  ): Promise<'here' | 'busy' | 'stale_attempt' | ResumeRefusal | Refusal>;
  /** The session may be here in a moment, or at another node. */
  isUnderWay(sessionId: string): boolean;
  /** Whether a kept reply waits for the client of its requester. @throws {ProtocolError} as the engine. */
  isAwaited(source: DurableRequest, id: string): Promise<boolean>;
  /** Other nodes take the sessions of this one. */
  handleCutOff(): void;
}

export const DURABLE = new Service<DurableSessions>('durable sessions');
