import { keyOf } from '../base/keys.js';

/**
 * The owner of a kept reply: the principal of its requester. Without authentication it belongs to the session of its
 * requester, and to each later one that proves to continue that session by its resume token.
 */

export function ownerOfPrincipal(principal: string): string {
  return keyOf('principal', principal);
}

export function ownerOfSession(sessionId: string): string {
  return keyOf('session', sessionId);
}
