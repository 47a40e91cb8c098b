import { existingServer } from './existing-server.js';
import type { Guide } from './guide.js';

/** The guides that are whole programs, by the names of their pages in docs/guide. */
export const GUIDES: Readonly<Record<string, Guide>> = {
  'existing-server': existingServer,
};
