import { agents } from './agents.js';
import { existingServer } from './existing-server.js';
import { fromSocketIo } from './from-socket-io.js';
import { fromSse } from './from-sse.js';
import type { Guide } from './guide.js';
import { models } from './models.js';
import { nextjs } from './nextjs.js';
import { noBundler } from './no-bundler.js';
import { rooms } from './rooms.js';
import { vueAndSvelte } from './vue-and-svelte.js';
import { workerFleet } from './worker-fleet.js';

/** The guides that are whole programs, by the names of their pages in docs/guide. */
export const GUIDES: Readonly<Record<string, Guide>> = {
  'existing-server': existingServer,
  nextjs,
  'from-socket-io': fromSocketIo,
  'from-sse': fromSse,
  models,
  'no-bundler': noBundler,
  rooms,
  'vue-and-svelte': vueAndSvelte,
  'worker-fleet': workerFleet,
  agents,
};
