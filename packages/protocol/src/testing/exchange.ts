import type { End } from './simulation.js';

/** One request and its reply. */
export interface Exchange {
  readonly asker: End;
  readonly streamId: number;
  readonly request: string;
  requested: boolean;
  readonly sent: string[];
  readonly received: string[];
  /** How this end has answered, and what arrived. */
  said: 'end' | 'failure' | undefined;
  heard: 'end' | 'failure' | undefined;
  /** Cancelled, or of a page that is gone: not everything has to arrive. */
  isCut: boolean;
}
