import type { Door } from './door.js';
import { scenariosFor } from './run.js';

/**
 * What the peer in Python does otherwise than the specification says. The scenarios are newer than the peer, which is changed only
 * where the document changes.
 */
export const DEVIATIONS = {
  server: [
    'agreement/no-messages',
    'plain/binary-data',
    'plain/foreign-host',
    'plain/foreign-origin',
    'plain/many-fragments',
    'plain/upgrade-with-a-body',
    'tensors/above-the-limit',
  ],
  client: [
    'agreement/limits',
    'agreement/no-messages',
    'agreement/retry-after',
    'agreement/waits-for-the-rate',
    'tensors/above-the-limit',
  ],
} as const;
/** The scenarios that the peer has to pass. @param starts of their names; all if it is left out. */
export const othersFor = (role: Door['peer'], starts: readonly string[] = []): string[] =>
  scenariosFor(role, starts)
    .map(({ name }) => name)
    .filter((name) => !(DEVIATIONS[role] as readonly string[]).includes(name));
