import type { Answer } from '../control/agreement.js';
import type { LaterCodec } from '../control/messages.js';
import type { RateState } from '../link/rates.js';
import type { ResumeState } from './resume-token.js';

/** The state of a server's role that has admitted its client. */
export interface ServerRoleState {
  readonly answer: Answer;
  readonly statedAgentId: string | undefined;
  readonly agentId: string | undefined;
  /** `undefined` without resume. */
  readonly guard: ResumeState | undefined;
  readonly isDetached: boolean;
  readonly awaitedCodecs: ReadonlySet<LaterCodec>;
  readonly rates: RateState;
  /** Milliseconds; `Infinity` for credentials that do not expire, `undefined` if none were granted. */
  readonly expiresIn: number | undefined;
}
