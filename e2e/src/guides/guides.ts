import { existingServer } from './existing-server.js';
import type { Guide } from './guide.js';
import { nextjs } from './nextjs.js';

/** The guides that are whole programs, by the names of their pages in docs/guide. */
export const GUIDES: Readonly<Record<string, Guide>> = {
  'existing-server': existingServer,
  nextjs,
};
