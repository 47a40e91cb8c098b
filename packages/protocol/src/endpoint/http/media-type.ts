/**
 * The media type of a `content-type`, without parameters and in lower case; an empty text if there is none. Types are only compared by
 * this: `Text/Event-Stream; charset=utf-8` is `text/event-stream`, and `text/event-streams` is not.
 */
export function mediaTypeOf(contentType: string | null | undefined): string {
  return (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** Whether a response is a stream of events: an error never is, even if its label says so. */
export function isEventStream(status: number, contentType: string | null | undefined): boolean {
  return status >= 200 && status < 300 && mediaTypeOf(contentType) === 'text/event-stream';
}

/** Whether the content of a media type is text. */
export function isTextType(contentType: string | null | undefined): boolean {
  return TEXT.test(mediaTypeOf(contentType));
}

const TEXT =
  /^(?:text\/.*|(?:[\w.-]+\/[\w.-]+\+|application\/)(?:json|xml)|application\/(?:javascript|x-www-form-urlencoded|(?:x-)?ndjson|jsonl|json-seq))$/;

/** Whether the content of a media type is one JSON value. */
export function isJsonType(contentType: string | null | undefined): boolean {
  return JSON_TYPE.test(mediaTypeOf(contentType));
}

const JSON_TYPE = /^(?:[\w.-]+\/[\w.-]+\+|application\/)json$/;
