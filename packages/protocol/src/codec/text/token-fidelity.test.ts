import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyJson, chatJson } from '../../testing/chat-json.js';
import { errorCode } from '../../testing/error-code.js';
import { reread, withDefaults } from './testing/token-meaning.js';
import { decodeToken, decodeTokenBody, encodeToken, encodeTokenBody } from './token.js';

describe('fidelity', () => {
  it('keeps the meaning of any chat traffic', () => {
    fc.assert(
      fc.property(chatJson, (json) => {
        const wire = encodeToken(json);
        expect(JSON.parse(decodeToken(wire))).toEqual(withDefaults(json));
        expect(wire.length).toBeLessThanOrEqual(JSON.stringify(JSON.parse(json)).length + 4);
      }),
      { numRuns: 1000 },
    );
  });

  it('compares names and values after their escapes', () => {
    const escaped = (text: string) =>
      [...text].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
    const chat = { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hi!' }] };
    const json = JSON.stringify(chat).replaceAll(/(?<=")[a-z-]+\d?[a-z]*(?=")/g, escaped);
    expect(JSON.parse(json)).toEqual(chat);
    expect(encodeToken(json)).toBe(encodeToken(JSON.stringify(chat)));
    const short = encodeToken(JSON.stringify(chat)).slice('#T1|'.length);
    const wire = `#T1|${short.replaceAll(/(?<=")[A-Za-z]+(?=")/g, escaped)}`;
    expect(JSON.parse(decodeToken(wire))).toEqual(withDefaults(JSON.stringify(chat)));
  });

  it('keeps the meaning of any other JSON, or refuses it', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const json = JSON.stringify(value);
        const code = errorCode(() => encodeToken(json));
        if (code === 'none') expect(reread(json)).toEqual(withDefaults(json));
        else expect(code).toBe('unrepresentable');
      }),
      { numRuns: 2000 },
    );
  });

  it('keeps the spelling of numbers and strings', () => {
    const json =
      '{"seed":12345678901234567890,"user":"\\u00e9\\/\\ud800","temperature":1e0,"max_tokens":-0.0,"x-y":1E400}';
    expect(decodeToken(encodeToken(json))).toBe(json);
  });

  it('drops only whitespace outside strings', () => {
    const json =
      ' { "model" : "a b" ,\n\t"metadata" : { "k" : [ 1 , " \\" x" ] } , "choices" : [ { } , 2 ] } ';
    expect(decodeToken(encodeToken(json))).toBe(
      '{"model":"a b","metadata":{"k":[1," \\" x"]},"choices":[{},2]}',
    );
  });

  it('carries documents that are not an object', () => {
    for (const json of ['null', '"m"', '-1.50', '[{"model":"4"},[]]', '[]', '{}']) {
      expect(decodeToken(encodeToken(` ${json} `))).toBe(json);
    }
  });

  it('has the same body without its prefix', () => {
    fc.assert(
      fc.property(chatJson, (json) => {
        const body = encodeTokenBody(json);
        expect(`#T1|${new TextDecoder().decode(body)}`).toBe(encodeToken(json));
        expect(decodeTokenBody(body)).toBe(decodeToken(encodeToken(json)));
      }),
    );
  });
});

describe('refusals', () => {
  it('refuses text that is not JSON, in both directions', () => {
    for (const text of [
      '',
      ' ',
      'Hello',
      '{"model":"gpt-4o",}',
      '{',
      '[1]]',
      '{"a":01}',
      "{'a':1}",
      'NaN',
      '"\n"',
    ]) {
      expect(errorCode(() => encodeToken(text))).toBe('bad_json');
      expect(errorCode(() => decodeToken(`#T1|${text}`))).toBe('bad_json');
    }
  });

  it('refuses another prefix, invalid UTF-8 and half a surrogate pair', () => {
    expect(errorCode(() => decodeToken('{}'))).toBe('unknown_prefix');
    expect(errorCode(() => decodeToken('#T1{}'))).toBe('unknown_prefix');
    expect(errorCode(() => decodeTokenBody(Uint8Array.of(0x22, 0xff, 0x22)))).toBe('bad_utf8');
    expect(errorCode(() => encodeToken('"\ud800"'))).toBe('lone_surrogate');
    expect(errorCode(() => decodeToken('#T1|"\udc00"'))).toBe('lone_surrogate');
  });

  it.each([
    ['maxJsonDepth', '{"messages":[{"content":[]}]}', 4, 'json_too_deep'],
    ['maxArrayLength', '{"messages":[{},{},{}]}', 3, 'array_too_long'],
    ['maxJsonValues', '{"messages":[{},{},{}]}', 6, 'too_many_values'],
    ['maxStringLength', '{"messages":[{"content":"éé"}]}', 7, 'string_too_long'],
  ] as const)('holds %s at the limit and one beyond', (name, json, limit, code) => {
    const wire = encodeToken(json);
    const long = name === 'maxStringLength' ? 8 : limit;
    expect(encodeToken(json, { limits: { [name]: long } })).toBe(wire);
    expect(errorCode(() => encodeToken(json, { limits: { [name]: limit - 1 } }))).toBe(code);
    const inWire = name === 'maxStringLength' ? 4 : limit;
    expect(errorCode(() => decodeToken(wire, { limits: { [name]: inWire } }))).toBe('none');
    expect(errorCode(() => decodeToken(wire, { limits: { [name]: inWire - 1 } }))).toBe(code);
  });

  it('applies the message limit in both directions', () => {
    const json = '{"choices":[{"finish_reason":"content_filter"}]}';
    const wire = encodeToken(json, { limits: { maxMessageSize: json.length } });
    expect(errorCode(() => encodeToken(json, { limits: { maxMessageSize: json.length - 1 } }))).toBe(
      'message_too_large',
    );
    expect(decodeToken(wire, { limits: { maxMessageSize: json.length } })).toBe(json);
    expect(errorCode(() => decodeToken(wire, { limits: { maxMessageSize: json.length - 1 } }))).toBe(
      'decompressed_too_large',
    );
    expect(errorCode(() => decodeToken(wire, { limits: { maxMessageSize: wire.length - 1 } }))).toBe(
      'message_too_large',
    );
    const body = encodeTokenBody(json);
    expect(errorCode(() => decodeTokenBody(body, { limits: { maxMessageSize: body.length - 1 } }))).toBe(
      'message_too_large',
    );
  });

  it('survives deep nesting without a limit', () => {
    const limits = { maxJsonDepth: Infinity, maxJsonValues: Infinity };
    for (const [open, close] of [
      ['[', ']'],
      ['{"messages":', '}'],
      ['{"choices":[', ']}'],
    ] as const) {
      const deep = `{"messages":${open.repeat(100_000)}1${close.repeat(100_000)},"choices":[${'['.repeat(100_000)}${']'.repeat(100_000)}]}`;
      expect(errorCode(() => decodeToken(encodeToken(deep, { limits }), { limits }))).toBe('none');
    }
  });

  it('reports every damaged message as a ProtocolError', () => {
    fc.assert(
      fc.property(chatJson, fc.nat(), fc.string({ unit: 'binary', maxLength: 2 }), (json, at, inserted) => {
        const wire = encodeToken(json);
        const index = at % wire.length;
        errorCode(() => decodeToken(wire.slice(0, index)));
        errorCode(() => decodeToken(wire.slice(0, index) + inserted + wire.slice(index + 1)));
      }),
      { numRuns: 1000 },
    );
  });
});
