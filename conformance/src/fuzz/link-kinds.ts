import { LinkKind } from '../subject.js';

/** Names of the kinds of link frames, by their number. */
export const LINK_KINDS: readonly string[] = Object.entries(LinkKind)
  .toSorted(([, a], [, b]) => a - b)
  .map(([name]) => name.toLowerCase());
