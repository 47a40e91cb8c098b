import fc from 'fast-check';
import { expect, it } from 'vitest';
import { encodeUtf8 } from '../../base/text.js';
import { asIsOf, encodeAsIs, encodeEventPart, eventTextOf, type ServerSentEvent } from './events.js';

/** Parses one event as specified for server-sent events. */
function parse(text: string): ServerSentEvent {
  expect(text.endsWith('\n\n')).toBe(true);
  const data: string[] = [];
  const fields: Record<string, string> = {};
  for (const line of text.slice(0, -2).split('\n')) {
    const [, name = '', value = ''] = /^([a-z]+): ?(.*)$/su.exec(line) ?? [];
    if (name === 'data') data.push(value);
    else fields[name] = value;
  }
  return { ...fields, data: data.join('\n') };
}

const line = fc.oneof(
  fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/gu, '')),
  fc.constantFrom(
    'data: x',
    'data:',
    'event: x',
    'id: 7',
    'retry: 1',
    ' two  spaces',
    ': a comment',
    '[DONE]',
    ':',
  ),
);
const data = fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join('\n'));
const name = fc.stringMatching(/^[a-z][a-z._]{0,20}$/);

it('decodes the event that it encoded, and never encodes an empty part', () => {
  const events = fc.record({ data, event: name, id: name }, { requiredKeys: ['data'] });
  fc.assert(
    fc.property(events, (event) => {
      const part = encodeEventPart(event as ServerSentEvent);
      expect(part).not.toBe('');
      expect(parse(eventTextOf(part))).toEqual(event);
    }),
  );
});

it('encodes an event without a name as its data alone', () => {
  for (const json of ['{"id":"chatcmpl-1","choices":[]}', '[DONE]', '{\n  "a": 1\n}']) {
    expect(encodeEventPart({ data: json })).toBe(json);
  }
  expect(eventTextOf('{"a":1}')).toBe('data: {"a":1}\n\n');
  expect(eventTextOf('{\n}')).toBe('data: {\ndata: }\n\n');
});

it('encodes an event with a name as its field lines', () => {
  const part = encodeEventPart({ event: 'response.created', data: '{"type":"response.created"}' });
  expect(part).toBe('event: response.created\ndata: {"type":"response.created"}');
  expect(eventTextOf(part)).toBe(`${part}\n\n`);
});

it('decodes an empty part as no event', () => {
  expect(eventTextOf('')).toBe('');
});

it('tells what stands there as it is from events', () => {
  for (const text of ['', 'data: {"a":1}', '{"error":{}}', 'x\n:']) {
    const part = encodeAsIs(text) as string;
    expect(eventTextOf(part)).toBe(text);
    expect(asIsOf(encodeUtf8(part))).toEqual(encodeUtf8(text));
    expect(encodeAsIs(encodeUtf8(text))).toEqual(encodeUtf8(part));
  }
  for (const data of ['a\n:', '\n:', ':', 'a\n', 'a\n: b']) {
    const part = encodeEventPart({ data });
    expect(asIsOf(encodeUtf8(part))).toBeUndefined();
    expect(parse(eventTextOf(part))).toEqual({ data });
  }
});

it('looks like a comment behind an event to a reader that does not know pieces as they are', () => {
  expect(encodeAsIs('data: {"a":1}')).toBe('data: {"a":1}\n:');
});
