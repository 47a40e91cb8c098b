import type { Metadata } from './metadata.js';

/** Requests that name a procedure of a contract. */

/** The metadata that names it. */
export const PROCEDURE = 'procedure';

const taken = new WeakSet<object>();

/** A contract answers the request, or refuses it. */
export function take(request: object): void {
  taken.add(request);
}

/** Whether a request is one of a contract, and none has taken it. */
export function isUntaken(request: object, metadata: Metadata): boolean {
  return typeof metadata[PROCEDURE] === 'string' && !taken.has(request);
}
