import type { Kit } from './kit.js';

/** One thing that a peer must do. */
export interface Scenario {
  /** As `--only` selects it: the part of the specification, a slash, and what it is about. */
  readonly name: string;
  /** The sections of the specification that it tests. */
  readonly section: string;
  /** Which ends it tests. @default both */
  readonly tests?: 'server' | 'client';
  /** The duty of the peer, as a sentence. */
  readonly title: string;
  /** @throws {Deviation} at the first thing that is not as specified. @throws {NotApplicable} */
  run(kit: Kit): Promise<void>;
}
