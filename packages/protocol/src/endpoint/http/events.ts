/**
 * Server-sent events as the parts of a reply. A part is exactly the data of one event. An event with a name
 * or an ID, or with data that looks like field lines, is sent as its field lines instead; JSON never begins
 * like one. An empty part is not an event: it only shows that the reply has begun.
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

/** Encodes an event as a part of a reply. */
export function encodeEventPart({ data, event, id }: ServerSentEvent): string {
  if (event === undefined && id === undefined && data !== '' && !hasFields(data)) return data;
  const head = `${event === undefined ? '' : `event: ${event}\n`}${id === undefined ? '' : `id: ${id}\n`}`;
  return head + dataLines(data);
}

/** Returns the text of the event in a part, as a server sends it; an empty string for an empty part. */
export function eventTextOf(part: string): string {
  if (part === '') return '';
  return `${hasFields(part) ? part : dataLines(part)}\n\n`;
}

function hasFields(text: string): boolean {
  return FIELDS.some((field) => text.startsWith(field));
}

function dataLines(data: string): string {
  return `data: ${data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data}`;
}
