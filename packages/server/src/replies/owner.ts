/**
 * Who a kept reply belongs to: the principal of its requester. Without authentication it belongs to the session of its
 * requester, and to each later one that proves to continue that session by its resume token.
 */

export function ownerOfPrincipal(principal: string): string {
  return keyOf('principal', principal);
}

export function ownerOfSession(sessionId: string): string {
  return keyOf('session', sessionId);
}

/** A key that is different for different lists of texts, with any characters. */
export function keyOf(...texts: readonly string[]): string {
  return texts.map((text) => text.replaceAll(/[^A-Za-z0-9_-]/g, escapeUnit)).join(':');
}

/** Four digits for each UTF-16 unit, so that the end of an escape is certain. */
function escapeUnit(unit: string): string {
  return [...unit.split('')].map((each) => `%${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
}
