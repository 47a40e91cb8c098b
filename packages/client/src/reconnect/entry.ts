import type { Ticket } from '@parlance/protocol/client';

/** The data that a page leaves to the next one. It holds neither credentials nor content. */
export interface Entry {
  readonly ticket: Ticket;
  /** The codecs that HELLO listed as not loaded: the next HELLO has to make the same offer. */
  readonly later: readonly string[];
  /** The page has left the session, so nothing else uses it. */
  readonly isDetached: boolean;
}

const FORMAT = 1;
/** The counts by which a page states how much of a durable session it has. */
const COUNTS = ['messages', 'sent', 'written', 'opened', 'heard'] as const;
/** In UTF-16 units. */
export const MAX_ENTRY_LENGTH = 2_048;
const MAX_ID_LENGTH = 128;
const MAX_TOKEN_LENGTH = 256;
const MAX_CODECS = 16;
const MAX_NAME_LENGTH = 32;

/** Returns `undefined` if the entry would be too long, which no server of ours causes. */
export function encodeEntry({ ticket, later, isDetached }: Entry): string | undefined {
  const { sessionId, token, attempt, received, have } = ticket;
  const counts = have && COUNTS.map((name) => have[name]);
  const fields = {
    format: FORMAT,
    sessionId,
    token,
    attempt,
    received,
    later,
    detached: isDetached,
    have: counts,
  };
  const text = JSON.stringify(fields);
  return decodeEntry(text) === undefined ? undefined : text;
}

/** Returns `undefined` if the text is not an entry: any page of this origin may have written it. */
export function decodeEntry(text: string): Entry | undefined {
  if (text.length > MAX_ENTRY_LENGTH) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(value));
  const [sessionId, token] = [fields.get('sessionId'), fields.get('token')];
  const [attempt, received, later] = [fields.get('attempt'), fields.get('received'), fields.get('later')];
  const isValid =
    fields.get('format') === FORMAT &&
    isText(sessionId, MAX_ID_LENGTH) &&
    isText(token, MAX_TOKEN_LENGTH) &&
    isCount(attempt) &&
    isCount(received) &&
    Array.isArray(later) &&
    later.length <= MAX_CODECS &&
    later.every((name) => isText(name, MAX_NAME_LENGTH));
  const have = fields.get('have');
  if (!isValid || !(have === undefined || areCounts(have))) return undefined;
  return {
    ticket: { sessionId, token, attempt, received, ...(have && { have: haveOf(have) }) },
    later,
    isDetached: fields.get('detached') === true,
  };
}

function areCounts(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length === COUNTS.length && value.every(isCount);
}

/** As HELLO states it: the requests of a page end with it. */
function haveOf(counts: readonly number[]): Ticket['have'] {
  return { ...Object.fromEntries(COUNTS.map((name, i) => [name, counts[i]])), streams: [] };
}

function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxLength;
}

/** There has to be a next one. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < Number.MAX_SAFE_INTEGER;
}
