import type { HelloPayload, ResumeRefusal, Subprotocol } from '@parlance/protocol';
import type { CheckedIdentity, Refusal } from '../../admission/admission.js';
import type { Origin } from '../../admission/renewal.js';
import type { Records } from '../../durable/records.js';
import type { ServerWire } from '../../http/ws.js';
import type { Lead } from './lead.js';

/** A client that wants to resume a session that is not here. */
export interface LeadRequest {
  readonly sessionId: string;
  /** The bytes of its HELLO. */
  readonly hello: Uint8Array | string;
  /** What it says. */
  readonly offer: HelloPayload;
  readonly subprotocol: Subprotocol;
  readonly identity: CheckedIdentity;
  /** The shares of the process's memory that it uses. */
  readonly memoryKeys: readonly string[];
  readonly origin: Origin;
  readonly wire: ServerWire;
  /** The client is gone. */
  readonly signal: AbortSignal;
  /** The owner has answered: from now on the connection feeds the lead. */
  readonly onLed: (lead: Lead) => void;
}

export type LeadOutcome = 'done' | 'here' | 'stale_attempt' | ResumeRefusal | Refusal;

/** What a handshake asks of the cluster. */
export interface Leader {
  /** Names this node in the IDs of its sessions. */
  readonly incarnation: string;
  /** Puts sessions on record; `undefined` if none are. */
  readonly records: Records | undefined;
  /**
   * Leads a connection to the node that has its session.
   *
   * @returns `done` if it is led or closed; `here` if the session has come to this node; else why not, and whether the client may begin a new session. Never rejects.
   */
  lead(request: LeadRequest): Promise<LeadOutcome>;
}
