import { expect, it } from 'vitest';
import { isEventStream, isJsonType, isTextType, mediaTypeOf } from './media-type.js';

it('compares media types without case and parameters', () => {
  for (const type of [
    'text/event-stream',
    'Text/Event-Stream',
    ' text/event-stream ; charset=utf-8',
    'text/event-stream;x',
  ]) {
    expect(mediaTypeOf(type)).toBe('text/event-stream');
    expect(isEventStream(200, type)).toBe(true);
  }
  for (const type of [
    'text/event-streams',
    'text/event',
    'x-text/event-stream',
    'text/plain; text/event-stream',
    '',
    undefined,
    null,
  ]) {
    expect(isEventStream(200, type)).toBe(false);
  }
});

it('takes no error for a stream of events', () => {
  const type = 'text/event-stream';
  expect([199, 200, 299, 300, 404, 500].map((status) => isEventStream(status, type))).toEqual([
    false,
    true,
    true,
    false,
    false,
    false,
  ]);
});

it('knows text and JSON', () => {
  const types: readonly (readonly [type: string | undefined, isText: boolean, isJson: boolean])[] = [
    ['application/json', true, true],
    ['Application/JSON; charset=utf-8', true, true],
    ['application/vnd.api+json;profile="x"', true, true],
    ['application/json-patch+json', true, true],
    ['application/json-seq', true, false],
    ['application/jsonl', true, false],
    ['application/x-ndjson', true, false],
    ['application/soap+xml', true, false],
    ['image/svg+xml', true, false],
    ['text/css', true, false],
    ['application/jsonx', false, false],
    ['application/octet-stream', false, false],
    ['audio/mpeg', false, false],
    [undefined, false, false],
  ];
  for (const [type, isText, isJson] of types) {
    expect([type, isTextType(type), isJsonType(type)]).toEqual([type, isText, isJson]);
  }
});
