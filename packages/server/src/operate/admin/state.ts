import { packageVersion } from '../../base/package-version.js';
import type { DrainProgress } from '../../server/drain-options.js';
import type { AdminState, Sample } from './report.js';

interface Parts {
  readonly node: string | undefined;
  readonly mode: AdminState['mode'];
  readonly startedAt: number;
  readonly draining: DrainProgress | undefined;
  readonly shown: readonly string[];
  readonly features: readonly string[];
  readonly engine: AdminState['engine'];
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

const PREFIX = 'parlance_';

export function stateOf({ node, draining, samples, ...rest }: Parts): AdminState {
  return {
    ...rest,
    version: packageVersion(),
    node: node ?? null,
    now: Date.now(),
    draining: draining ?? null,
    metrics: Object.fromEntries(
      [...samples].map(([name, values]) => [
        name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name,
        values,
      ]),
    ),
  };
}
