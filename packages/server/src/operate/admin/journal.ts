import type { Slot } from '../../server/features/slot.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { SessionMark } from './report.js';

/** Marks that are kept of a session. */
export const MARKS = 24;

/** The marks of one session's timeline. */
export class Journal {
  readonly marks: SessionMark[] = [];
  dropped = 0;

  add(mark: Omit<SessionMark, 'at'>): void {
    this.marks.push({ at: Date.now(), ...mark });
    if (this.marks.length <= MARKS) return;
    // How it began stays.
    this.marks.splice(1, 1);
    this.dropped++;
  }
}

export type Journals = Slot<Journal, ServerEndpoint>;
