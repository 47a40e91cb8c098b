/**
 * How server-sent events travel as the parts of a reply: a part is the data of one event, exactly. An
 * event that has more than data (a name, an ID), or whose data would be mistaken for one, is a part of
 * the lines that it had, which no JSON begins like. The empty part is no event: it only says that the
 * reply has begun.
 */

/** One event of a stream of server-sent events. */
export interface ServerSentEvent {
  /** Lines are separated by one line feed. */
  readonly data: string;
  readonly event?: string | undefined;
  readonly id?: string | undefined;
}

/** What a part of lines begins with. */
const FIELDS = ['data:', 'event:', 'id:'] as const;

/** The part that carries an event. */
export function encodeEventPart({ data, event, id }: ServerSentEvent): string {
  if (event === undefined && id === undefined && data !== '' && !hasFields(data)) return data;
  const head = `${event === undefined ? '' : `event: ${event}\n`}${id === undefined ? '' : `id: ${id}\n`}`;
  return head + dataLines(data);
}

/** The text of the event that a part carries, as a server would have sent it; the empty part has none. */
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
