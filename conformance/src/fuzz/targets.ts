import { loadCodecs, loadEncoding } from '../subject.js';
import { AVP_TARGETS } from './avp-targets.js';
import { CONTEXT_TARGETS } from './context-target.js';
import { CONTROL_TARGETS } from './control-targets.js';
import { DIALOGUE_TARGETS } from './dialogue-targets.js';
import { EXPLAIN_TARGETS } from './explain-targets.js';
import { KEPT_TARGETS } from './kept-targets.js';
import { M2M_TARGETS } from './m2m-targets.js';
import { RELAY_TARGETS } from './relay-target.js';
import { SESSION_TARGETS } from './session-target.js';
import { SNAPSHOT_TARGETS } from './snapshot-target.js';
import type { Target } from './target.js';
import { TEXT_TARGETS } from './text-targets.js';

/** Every decoder that a peer's bytes can reach, and the explainer. */
export const TARGETS: readonly Target[] = [
  ...M2M_TARGETS,
  ...TEXT_TARGETS,
  ...CONTROL_TARGETS,
  ...KEPT_TARGETS,
  ...AVP_TARGETS,
  ...CONTEXT_TARGETS,
  ...SESSION_TARGETS,
  ...SNAPSHOT_TARGETS,
  ...RELAY_TARGETS,
  ...DIALOGUE_TARGETS,
  ...EXPLAIN_TARGETS,
];

/** Loads what the targets need. */
export async function prepareTargets(): Promise<void> {
  await Promise.all([loadCodecs(['M2M', 'BROTLI', 'AVP', 'CONTEXT']), loadEncoding('CL100K_BASE')]);
}
