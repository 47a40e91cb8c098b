import { concatBytes } from '../../base/bytes.js';

/**
 * Server-sent events as the parts of a reply. A part is exactly the data of one event. An event with a name
 * or an ID, or with data that looks like field lines, is sent as its field lines instead; JSON never begins
 * like one. An empty part is not an event: it shows that the reply has begun, or that its source lives. Neither is a part that ends with
 * {@link AS_IS}: the text before that stands in the stream as it is.
 */

/** One event of a stream of server-sent events. */
export interface ServerSentEvent {
  /** Its lines are separated by line feeds. */
  readonly data: string;
  readonly event?: string | undefined;
  readonly id?: string | undefined;
}

/** A part that begins with one of these consists of field lines. */
const FIELDS = ['data:', 'event:', 'id:'] as const;

/** Ends a part that is no event. A reader that does not know this takes it for a comment behind an event. */
const AS_IS = '\n:';

/** Encodes an event as a part of a reply. */
export function encodeEventPart({ data, event, id }: ServerSentEvent): string {
  const isPlain = data !== '' && !hasFields(data) && !data.endsWith(AS_IS);
  if (event === undefined && id === undefined && isPlain) return data;
  const head = `${event === undefined ? '' : `event: ${event}\n`}${id === undefined ? '' : `id: ${id}\n`}`;
  return head + dataLines(data);
}

/** Encodes what stands in a stream of events and is none, as a part of a reply. */
export function encodeAsIs(piece: string | Uint8Array): string | Uint8Array {
  return typeof piece === 'string' ? piece + AS_IS : concatBytes([piece, MARK]);
}

/** The piece that {@link encodeAsIs} has encoded; `undefined` for another part. */
export function asIsOf(part: Uint8Array): Uint8Array | undefined {
  const length = part.length - MARK.length;
  return part[length] === MARK[0] && part[length + 1] === MARK[1] ? part.subarray(0, length) : undefined;
}

const MARK = Uint8Array.of(0x0a, 0x3a);

/** Returns the text of the event in a part, as a server sends it; an empty string for an empty part. */
export function eventTextOf(part: string): string {
  if (part === '') return '';
  if (part.endsWith(AS_IS)) return part.slice(0, -AS_IS.length);
  return `${hasFields(part) ? part : dataLines(part)}\n\n`;
}

function hasFields(text: string): boolean {
  return FIELDS.some((field) => text.startsWith(field));
}

function dataLines(data: string): string {
  return `data: ${data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data}`;
}
