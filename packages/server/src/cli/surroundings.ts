import type { ExitCode } from './failure.js';
import type { Terminal } from './terminal.js';

/** What a command line finds around it. */
export interface Surroundings {
  readonly output: Terminal;
  readonly errors: Terminal;
  /** Whether a person types what is read. */
  readonly isTyped: boolean;
  /** Clients present it, and a server demands it. */
  readonly token: string | undefined;
  /** The key of an upstream. */
  readonly apiKey: string | undefined;
}

/** Is told how a command ended. */
export type Finish = (code: ExitCode) => void;
