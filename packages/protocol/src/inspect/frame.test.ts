import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { Algorithm, Subprotocol } from '../base/constants.js';
import { RequestError } from '../base/errors.js';
import { encodeUtf8 } from '../base/text.js';
import { encodeAvp } from '../codec/avp/frame.js';
import { BodyCodec } from '../codec/body.js';
import { encodeContextBody } from '../codec/context/body.js';
import { loadCodecs } from '../codec/load.js';
import { encodeM2M } from '../codec/m2m/m2m.js';
import { encodeText } from '../codec/text/tagged.js';
import { encodeTokenNative } from '../codec/text/token-native.js';
import { loadEncoding } from '../codec/vocabulary/load.js';
import { encodeControl, encodeControlJson } from '../control/envelope.js';
import { encodeMap } from '../control/maps.js';
import type { ControlMessage } from '../control/messages.js';
import { encodeHttpRequest } from '../endpoint/http/head.js';
import { encodeMetadata } from '../endpoint/messages/metadata.js';
import { encodeFailure } from '../link/failure.js';
import { type BodyKind, encodeBodyFrame, encodeSignalFrame, LinkKind } from '../link/frame.js';
import type { ExplainedField, Explanation } from './explanation.js';
import { explainFrame } from './frame.js';

const CHAT = '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}';
const TOKEN = 'canary-5f1c9a';
const HELLO: ControlMessage = {
  type: 'HELLO',
  sessionId: null,
  timestamp: 1_700_000_000_000,
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encodings: ['CL100K_BASE'],
    preferredEncoding: 'CL100K_BASE',
    securityScanning: false,
    maxPayloadSize: 0,
    supportsStreaming: true,
    extensions: { link: '{}' },
    auth: { token: TOKEN },
    resume: { sessionId: 'sess_1', token: TOKEN, received: 3, attempt: 1 },
  },
};

beforeAll(async () => {
  await loadCodecs(['M2M', 'BROTLI', 'AVP']);
  await loadEncoding('CL100K_BASE');
});

const hex = (text: string) => new Uint8Array(Buffer.from(text.replaceAll(' ', ''), 'hex'));
const explain = (frame: Uint8Array | string, preview = 100) =>
  explainFrame(frame, { preview, encoding: 'CL100K_BASE' });

/** Names and values of all fields, including groups, one line each. */
function lines(fields: readonly ExplainedField[], depth = ''): string[] {
  return fields.flatMap(({ name, value, offset, length, children }) => [
    `${depth}${offset}+${length} ${name}${value === undefined ? '' : ` ${value}`}`,
    ...lines(children, `${depth}  `),
  ]);
}

function field(explanation: Explanation, name: string): ExplainedField {
  const search = (fields: readonly ExplainedField[]): ExplainedField | undefined =>
    fields.find((each) => each.name === name) ??
    fields.map(({ children }) => search(children)).find((each) => each !== undefined);
  const found = search(explanation.fields);
  if (found === undefined) throw new Error(`there is no field ${name} in ${lines(explanation.fields)}`);
  return found;
}

function bodyFrame(kind: BodyKind, codec: BodyCodec, bytes: Uint8Array, more: object = {}): Uint8Array {
  const streamId = kind === LinkKind.MESSAGE ? 0 : 1;
  const body = {
    kind,
    streamId,
    codec,
    bytes,
    originalLength: bytes.length,
    secret: false,
    metadata: undefined,
  };
  return encodeBodyFrame({ ...body, ...more }, 0, bytes.length);
}

describe('explaining frames', () => {
  it('says what an ACCEPT means that leaves out standard values', () => {
    const envelope = { type: 'ACCEPT', session_id: 'sess_1', timestamp: 1 };
    const std = { ...envelope, payload: { extensions: { link: '{"std":1}', std: '1' } } };
    const explanation = explain(JSON.stringify(std));
    expect(explanation.summary).toContain('all codecs that were offered; vocabulary CL100K_BASE');
    const none = { ...envelope, payload: { extensions: {} } };
    expect(explain(JSON.stringify(none)).summary).toContain('codecs none; vocabulary none');
  });

  it('names every byte of a token message', () => {
    const explanation = explain(hex('10 00 01 b24d 0b fd0e 00'));
    expect(lines(explanation.fields)).toEqual([
      '0+1 kind message',
      '1+1 stream 0',
      '2+1 codec and flags TOKEN_NATIVE',
      '3+6 token IDs',
      '  3+2 token 1 9906',
      '  5+1 token 2 11',
      '  6+2 token 3 1917',
      '  8+1 token 4 0',
    ]);
    expect(explanation).toMatchObject({
      kind: 'link',
      form: 'binary',
      label: 'message',
      summary: '“Hello, world!”, TOKEN_NATIVE: 4 tokens for 13 bytes of text',
      sizes: { frame: 9, body: 6, content: 13 },
      streamId: 0,
      preview: 'Hello, world!',
      error: undefined,
    });
    expect(field(explanation, 'token 3').note).toBe('“ world”');
  });

  it.each([
    ['1101006869', 'request', '“hi”, PLAIN: 2 bytes'],
    ['1201006f6b', 'response', '“ok”, PLAIN: 2 bytes'],
    ['130101a532', 'chunk', /^“.+”, TOKEN_NATIVE: 1 token for \d+ bytes? of text$/],
    ['1401', 'end', 'the reply is complete'],
    ['1601', 'cancel', 'cancels the request: the reply is no longer wanted'],
    ['1820', 'ack', '32 frames received so far'],
    ['1900808040', 'credit', 'allows 1,048,576 bytes in total in one-way messages'],
    ['1905808040', 'credit', 'allows 1,048,576 bytes in total on stream 5'],
  ])('explains link frame %s', (bytes, label, summary) => {
    const explanation = explain(hex(bytes));
    expect(explanation.error).toBeUndefined();
    expect(explanation.label).toBe(label);
    expect(explanation.summary).toEqual(
      typeof summary === 'string' ? summary : expect.stringMatching(summary),
    );
  });

  it('explains the fields of a failure', () => {
    const failure = encodeFailure(new RequestError('no_such_model', 'not here', { data: { a: 1 } }));
    const explanation = explain(encodeSignalFrame(LinkKind.ERROR, 1, failure));
    expect(explanation.summary).toBe('the request failed: no_such_model, not here');
    expect(field(explanation, 'retryable').value).toBe(false);
    expect(field(explanation, 'data').value).toBe('{"a":1}');
  });

  it('explains every codec, bare, as text and in a link frame', () => {
    for (const algorithm of Object.values(Algorithm)) {
      const explanation = explain(encodeText(CHAT, algorithm));
      expect(explanation.error, algorithm).toBeUndefined();
      expect(explanation.preview, algorithm).toContain('{"model":"gpt-4o"');
    }
    expect(explain(encodeM2M(CHAT))).toMatchObject({ kind: 'm2m', preview: CHAT });
    expect(explain(encodeTokenNative(CHAT, 'CL100K_BASE'))).toMatchObject({
      kind: 'token-native',
      preview: CHAT,
    });
    expect(explain(bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8(CHAT))).preview).toBe(CHAT);
  });

  it('shows what a body in context copies from an earlier message, and what it adds', () => {
    const [base, prefix, suffix] = [2, 1000, 20];
    const context = {
      base,
      replaces: false,
      compressed: false,
      prefix,
      suffix,
      checksum: 7,
      middle: hex('616263'),
    };
    const explanation = explain(bodyFrame(LinkKind.REQUEST, BodyCodec.CONTEXT, encodeContextBody(context)));
    expect(explanation).toMatchObject({ error: undefined, sizes: { content: 1023 } });
    expect(explanation.summary).toBe(
      'CONTEXT: repeats 1,020 bytes of the previous message, 11 bytes for 1,023',
    );
    const values = ['base', 'prefix', 'suffix', 'CRC-32'].map((name) => field(explanation, name).value);
    expect(values).toEqual([base * 4, prefix, suffix, '0x00000007']);
    expect(field(explanation, 'base').note).toBe('the previous message, the middle is not compressed');
    // If the parts are coded in context, END carries a CRC of them.
    expect(field(explain(hex('140178563412')), 'CRC-32').value).toBe('0x12345678');
  });

  it('shows the routing header of an M2M frame', () => {
    const json = JSON.stringify({
      model: 'gpt-4o',
      max_tokens: 99,
      messages: ['system', 'user', 'assistant', 'user'].map((role) => ({ role, content: 'x'.repeat(40) })),
    });
    const explanation = explain(encodeM2M(json));
    const values = ['schema', 'security', 'model', 'messages', 'roles', 'content size', 'max_tokens'].map(
      (name) => field(explanation, name).value,
    );
    expect(values).toEqual(['request', 'NONE', 'gpt-4o', 4, 'system, user, assistant, user', 160, 99]);
    expect(field(explanation, 'payload').note).toMatch(/^Brotli, /);
    expect(explanation.summary).toMatch(/M2M request for gpt-4o, 4 messages, \d+ bytes for \d+ of JSON$/);
  });

  it.each(['HMAC', 'AEAD'] as const)(
    'shows the header of a frame protected by %s and decodes nothing else',
    (mode) => {
      const frame = encodeM2M(CHAT, { security: { mode, key: new Uint8Array(32) } });
      const explanation = explain(frame);
      expect(explanation).toMatchObject({ error: undefined, preview: undefined });
      expect(field(explanation, 'security').value).toBe(mode);
      expect(field(explanation, 'model').value).toBe('gpt-4o');
      expect(JSON.stringify(explanation.fields)).not.toContain('Hello');
      // The protected part cannot be checked without the key, but missing bytes can be.
      const tail = mode === 'HMAC' ? 1 : CHAT.length + 1;
      expect(explain(frame.subarray(0, -tail)).error?.code).toBe('truncated');
    },
  );

  it('shows shape, type and metadata of a tensor', () => {
    const explanation = explain(
      encodeAvp({
        data: new Float32Array(6),
        shape: [2, 3],
        dtype: 'float32',
        payloadType: 'hidden_state',
        metadata: { modelId: 'llama', extra: { a: 'b' } },
      }),
    );
    expect(explanation.summary).toBe('hidden state of float32 [2, 3], 24 bytes, model llama');
    expect(field(explanation, 'tensor_shape').value).toBe('[2, 3]');
    expect(field(explanation, 'extra').value).toBe('a = b');
    expect(field(explanation, 'tensor')).toMatchObject({ length: 24 });
  });

  it('explains the nested shape of the reference implementation', () => {
    const { auth, resume, ...payload } = HELLO.payload;
    const explanation = explain(encodeControlJson({ ...HELLO, payload: { ...payload, shape: 'nested' } }));
    expect(explanation.summary).toContain("the reference implementation's shape");
    expect(field(explanation, 'compression').note).toContain('reference implementation');
  });

  it('explains the content of a DATA envelope as a frame of its own', () => {
    const content = encodeText('Hello, world!', 'TOKEN_NATIVE');
    const message: ControlMessage = {
      type: 'DATA',
      sessionId: 's',
      timestamp: 1,
      payload: { algorithm: 'TOKEN_NATIVE', content },
    };
    for (const frame of [encodeControl(message), encodeControlJson(message)]) {
      const explanation = explain(frame);
      expect(explanation.summary).toContain('4 tokens for 13 bytes of text');
      expect(field(explanation, 'token 1').value).toBe(9906);
    }
    const damaged = explain(
      encodeControlJson({ ...message, payload: { ...message.payload, content: '#TK|C|!' } }),
    );
    expect(damaged.error?.code).toBe('bad_base64');
    const lying = explain(
      encodeControlJson({ ...message, payload: { ...message.payload, content: 'plain' } }),
    );
    expect(field(lying, 'content').note).toBe('stated as TOKEN_NATIVE, but has no prefix');
  });
});

describe('credentials', () => {
  const forms = [encodeControl(HELLO), encodeControlJson(HELLO)];

  it('are redacted in every place', () => {
    for (const frame of forms) {
      const { bytes, ...explanation } = explain(frame);
      expect(explanation.error).toBeUndefined();
      expect(JSON.stringify(explanation)).not.toContain(TOKEN);
      const secrets = ['auth', 'token'].map((name) => field({ bytes, ...explanation }, name));
      for (const { isSecret, value, offset, length } of secrets) {
        expect({ isSecret, value }).toEqual({ isSecret: true, value: '[redacted]' });
        expect(Buffer.from(bytes.subarray(offset, offset + length)).includes(TOKEN)).toBe(true);
      }
    }
    const metadata = encodeMap({ headers: { Authorization: TOKEN, 'x-api-key': TOKEN, accept: 'text' } });
    const request = explain(bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8('hi'), { metadata }));
    expect(JSON.stringify(request.fields)).not.toContain(TOKEN);
    expect(field(request, 'accept').value).toBe('text');
  });

  it('are redacted in the query of an HTTP request, under any name', () => {
    const head = { method: 'GET', path: `/v1/files?limit=2&sig=${TOKEN}&${TOKEN}`, headers: new Map() };
    const metadata = encodeMetadata(encodeHttpRequest(head), 8192);
    const frame = bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8(''), { metadata });
    const explanation = explain(frame);
    expect(JSON.stringify({ ...explanation, bytes: undefined })).not.toContain('canary');
    expect(field(explanation, 'path')).toMatchObject({
      isSecret: true,
      value: '/v1/files?limit=[redacted]&sig=[redacted]&[redacted]',
    });
  });

  it.each([
    ['https://user:canary@example.com/a', 'https://[redacted]@example.com/a'],
    ['wss://example.com/session?key=canary', 'wss://example.com/session?key=[redacted]'],
    ['/v1/chat/completions', '/v1/chat/completions'],
    ['/help, is this thing on? canary', '/help, is this thing on? canary'],
    ['why? because=canary', 'why? because=canary'],
  ])('are redacted in an address, without changing anything else: %s', (text, shown) => {
    for (const value of [text, [text, 'plain']]) {
      const metadata = encodeMap({ value });
      const explanation = explain(
        bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8('hi'), { metadata }),
      );
      expect(field(explanation, 'value')).toMatchObject({
        value: typeof value === 'string' ? shown : `${shown}, plain`,
        ...(shown !== text && { isSecret: true }),
      });
    }
  });

  it('are redacted in unreadable metadata', () => {
    const frame = bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8('hi'), {
      metadata: Uint8Array.from([0xc1, ...encodeUtf8(TOKEN)]),
    });
    const explanation = explain(frame);
    expect(explanation.error?.code).toBe('bad_message');
    expect(field(explanation, 'metadata').isSecret).toBe(true);
    expect(JSON.stringify({ ...explanation, bytes: undefined })).not.toContain(TOKEN);
  });

  it('are redacted in messages truncated at any byte', () => {
    const shown = (fields: readonly ExplainedField[], bytes: Uint8Array): string =>
      fields
        .map(({ isSecret, children, value, offset, length }) =>
          isSecret
            ? ''
            : children.length > 0
              ? shown(children, bytes)
              : `${value} ${Buffer.from(bytes.subarray(offset, offset + length)).toString('latin1')}`,
        )
        .join(' ');
    const metadata = encodeMap({ http: { path: `/v1/files?sig=${TOKEN}` } });
    const request = bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, new Uint8Array(), { metadata });
    for (const frame of [...forms, request]) {
      for (let length = 1; length < frame.length; length++) {
        const cut = typeof frame === 'string' ? frame.slice(0, length) : frame.subarray(0, length);
        const explanation = explainFrame(cut, {
          preview: 1000,
          subprotocol: typeof frame === 'string' ? Subprotocol.JSON : undefined,
        });
        expect(explanation.error, `${length}`).toBeDefined();
        const { bytes, ...rest } = explanation;
        expect(JSON.stringify(rest)).not.toContain('canary');
        expect(shown(explanation.fields, bytes)).not.toContain('canary');
        // The fields of a control message cover every byte, so none is shown as harmless.
        if (explanation.kind === 'link') continue;
        const end = Math.max(...explanation.fields.map((each) => each.offset + each.length));
        expect(end).toBe(bytes.length);
      }
    }
  });
});

/** Finds fields of a frame, and changes a byte to see which fault is reported where. */
function damageTo(frame: Uint8Array) {
  return {
    at: (name: string) => field(explain(frame), name).offset,
    damaged(offset: number, value: number) {
      const copy = frame.slice();
      copy[offset] = value;
      const { error } = explain(copy);
      return [error?.code, error?.offset];
    },
  };
}

describe('damage', () => {
  it.each([
    ['', 'bad_frame', 0],
    ['ff00', 'bad_frame', 0],
    ['1a00', 'bad_frame', 0],
    ['1701', 'bad_frame', 2],
    ['17800261', 'bad_frame', 3],
    ['17012a', 'bad_frame', 2],
    ['11', 'truncated', 1],
    ['11ff', 'truncated', 1],
    ['118000', 'bad_varint', 1],
    ['1101', 'truncated', 2],
    ['11010f', 'bad_frame', 2],
    ['110140', 'truncated', 3],
    ['120140', 'bad_frame', 2],
    ['100100', 'bad_frame', 1],
    ['110000', 'bad_frame', 1],
    ['110110ff', 'truncated', 3],
    ['1101100101', 'bad_frame', 3],
    ['110180ff7f', 'metadata_too_large', 5],
    ['11018002a161', 'bad_message', 4],
    ['140100', 'truncated', 2],
    ['14010000000000', 'trailing_bytes', 6],
    ['110104ff7f', 'bad_varint', 3],
    ['1101040000', 'truncated', 3],
    ['182000', 'trailing_bytes', 2],
    ['1900', 'truncated', 2],
    ['150180', 'bad_message', 2],
    ['00b24db2', 'truncated', 3],
    ['00b24d8000', 'bad_varint', 3],
    ['00b24dffffffff1f', 'bad_varint', 3],
    ['00b24dffff7f', 'bad_token', 3],
    ['00b24dfd01', 'bad_utf8', 3],
    ['235823', 'unknown_prefix', 0],
    ['23ff', 'bad_utf8', 1],
    ['4156', 'truncated', 2],
    ['415702000000000000000000', 'bad_header', 0],
    ['415602000000000000000000', 'unknown_version', 2],
    ['415601000000000001000000', 'bad_header', 8],
    ['80', 'bad_message', 0],
    ['81a474797065', 'bad_message', 6],
    ['81a474797065c1', 'bad_message', 6],
  ])('in %s is reported as %s at byte %i', (bytes, code, offset) => {
    const { error } = explain(hex(bytes));
    expect({ code: error?.code, offset: error?.offset }).toEqual({ code, offset });
  });

  it.each([
    ['#TK|X|', 'bad_frame', 4],
    ['#TK|C|AB!D', 'bad_base64', 8],
    ['#TK|C|AB=D', 'bad_base64', 6],
    ['#BR|AAAA', 'bad_compression', 4],
    ['#T1|{', 'bad_json', 4],
    ['#M2M|1|AAAA', 'truncated', 7],
    ['{"type":"PING"', 'bad_json', 14],
    ['{"type":"PING","timestamp":-1}', 'bad_message', 15],
    ['{"type":"PING","timestamp":1,"payload":[]}', 'bad_message', 29],
    ['{"type":"HELLO","timestamp":1,"payload":{"version":1}}', 'bad_message', 41],
    [`{"type":"HELLO","payload":${'['.repeat(40)}`, 'json_too_deep', 57],
    ['a\ud800b', 'lone_surrogate', 1],
  ])('in the text %s is reported as %s at byte %i', (text, code, offset) => {
    const { error } = explain(text);
    expect({ code: error?.code, offset: error?.offset }).toEqual({ code, offset });
  });

  it('in an M2M frame is located', () => {
    const frame = encodeM2M(CHAT);
    const { at, damaged } = damageTo(frame);
    expect(damaged(at('schema'), 0x77)).toEqual(['unknown_schema', at('schema')]);
    expect(damaged(at('security'), 9)).toEqual(['unknown_security_mode', at('security')]);
    expect(damaged(at('flags') + 3, 0x80)).toEqual(['bad_header', at('flags')]);
    expect(damaged(at('reserved') + 5, 1)).toEqual(['bad_header', at('reserved')]);
    expect(damaged(at('roles'), 0xff)).toEqual(['bad_header', at('roles')]);
    expect(damaged(at('cost') + 3, 0xff)).toEqual(['bad_header', at('cost')]);
    expect(damaged(at('CRC-32'), 0)).toEqual(['bad_checksum', at('CRC-32')]);
    expect(damaged(at('payload length'), 0xff)).toEqual(['truncated', at('payload')]);
    expect(damaged(at('header length') + 1, 0xff)).toEqual(['truncated', at('header length')]);
    // Everything before the fault is explained.
    const cut = explain(frame.subarray(0, at('payload') + 3));
    expect(field(cut, 'model').value).toBe('gpt-4o');
  });

  it('in an AVP frame is located', () => {
    const frame = encodeAvp({
      data: new Float32Array(4),
      shape: [4],
      dtype: 'float32',
      payloadType: 'hidden_state',
      metadata: { modelId: 'llama' },
    });
    const { at, damaged } = damageTo(frame);
    expect(damaged(at('flags'), 0x80)).toEqual(['bad_header', at('flags')]);
    expect(damaged(at('flags'), 0x04)).toEqual(['bad_header', at('flags')]);
    expect(damaged(at('tensor_shape') + 2, 5)).toEqual(['bad_tensor', at('tensor_shape')]);
    expect(damaged(at('model_id') + 3, 0xff)).toEqual(['bad_utf8', at('model_id')]);
    expect(damaged(at('tensor'), 1)).toEqual(['bad_checksum', at('payload_checksum')]);
    expect(explain(frame.subarray(0, -1)).error).toMatchObject({ code: 'truncated', offset: at('tensor') });
    expect(explain(Uint8Array.from([...frame, 0])).error).toMatchObject({
      code: 'trailing_bytes',
      offset: frame.length,
    });
  });
});

describe('bounds', () => {
  it('apply to the preview, which is off by default', () => {
    const long = 'ä'.repeat(5000);
    expect(explainFrame(long).preview).toBeUndefined();
    expect(JSON.stringify(explainFrame(long).fields)).not.toContain('ä');
    expect(explainFrame(long, { preview: 5000 }).preview).toBe(long);
    expect(explainFrame(long, { preview: 4999 }).preview).toBe(`${'ä'.repeat(4999)}…`);
    expect(explainFrame('😀😀', { preview: 3 }).preview).toBe('😀…');
    const request = explainFrame(bodyFrame(LinkKind.REQUEST, BodyCodec.PLAIN, encodeUtf8('a secret')));
    expect(JSON.stringify({ ...request, bytes: undefined })).not.toContain('secret');
    const tokens = explainFrame(encodeTokenNative('secret', 'CL100K_BASE'));
    expect(JSON.stringify({ ...tokens, bytes: undefined })).not.toContain('secret');
  });

  it('apply to decompressed content, exactly at the limit', () => {
    const numbers = Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 10_007).join(' ');
    const json = JSON.stringify({ model: 'm', messages: [], x: numbers });
    for (const frame of [encodeM2M(json), encodeText(json, 'BROTLI')]) {
      expect(explainFrame(frame, { limits: { maxMessageSize: json.length } }).error).toBeUndefined();
      expect(explainFrame(frame, { limits: { maxMessageSize: json.length - 1 } }).error?.code).toBe(
        'decompressed_too_large',
      );
    }
  });

  it('apply to the size of a frame', () => {
    const limits = { maxMessageSize: 100, maxTransferSize: 200 };
    expect(explainFrame('x'.repeat(100), { limits }).error).toBeUndefined();
    expect(explainFrame('x'.repeat(101), { limits }).error?.code).toBe('message_too_large');
    const tensor = (size: number) =>
      encodeAvp({ data: new Int8Array(size), dtype: 'int8', payloadType: 'hidden_state' });
    const overhead = tensor(150).length - 150;
    expect(explainFrame(tensor(200 - overhead), { limits }).error).toBeUndefined();
    expect(explainFrame(tensor(201 - overhead), { limits }).error?.code).toBe('message_too_large');
  });

  it('apply to the number of fields of any frame', () => {
    const count = (fields: readonly ExplainedField[]): number =>
      fields.reduce((sum, { children }) => sum + 1 + count(children), 0);
    const many = encodeMap({ type: 'PING', timestamp: 1, payload: { list: new Array(500).fill(0) } });
    const json = JSON.stringify({ type: 'PING', timestamp: 1, payload: { list: new Array(250).fill([]) } });
    const roles = JSON.stringify({
      model: 'm',
      messages: new Array(5000).fill({ role: 'user', content: '' }),
    });
    for (const frame of [
      many,
      json,
      encodeM2M(roles),
      encodeTokenNative('a b '.repeat(9000), 'CL100K_BASE'),
    ]) {
      const explanation = explain(frame);
      expect(explanation.error).toBeUndefined();
      expect(count(explanation.fields)).toBeLessThan(2100);
      expect(JSON.stringify({ ...explanation, bytes: undefined }).length).toBeLessThan(400_000);
    }
    // Larger ones are refused by the decoder as well.
    for (const payload of [{ list: new Array(50_000).fill(0) }, { list: new Array(9_000).fill([]) }]) {
      const message = { type: 'PING', timestamp: 1, payload };
      for (const frame of [encodeMap(message), JSON.stringify(message)]) {
        const explanation = explain(frame);
        expect(explanation.error?.code).toBe('message_too_large');
        expect(count(explanation.fields)).toBeLessThan(2100);
      }
    }
  });
});

describe('any frame', () => {
  const good = (): (Uint8Array | string)[] => [
    encodeControl(HELLO),
    encodeControlJson(HELLO),
    encodeM2M(CHAT),
    encodeText(CHAT, 'BROTLI'),
    encodeText(CHAT, 'M2M'),
    encodeTokenNative(CHAT, 'CL100K_BASE'),
    encodeAvp({ data: new Int8Array(30), dtype: 'int8', payloadType: 'kv_cache' }, { compression: 'fast' }),
    bodyFrame(LinkKind.REQUEST, BodyCodec.M2M, encodeM2M(CHAT).subarray(7), {
      metadata: encodeMap({ a: [1] }),
    }),
  ];

  it('is explained without an exception, with every field inside it', () => {
    const inside = (fields: readonly ExplainedField[], start: number, end: number): boolean =>
      fields.every(
        ({ offset, length, children, bytes }) =>
          offset >= start &&
          offset + length <= end &&
          (bytes === undefined
            ? inside(children, offset, offset + length)
            : inside(children, 0, bytes.length)),
      );
    const check = (frame: Uint8Array | string) => {
      for (const options of [
        {},
        { continues: { received: 5, total: 9 } },
        { subprotocol: Subprotocol.JSON },
      ]) {
        const explanation = explainFrame(frame, { preview: 20, encoding: 'CL100K_BASE', ...options });
        expect(inside(explanation.fields, 0, explanation.bytes.length)).toBe(true);
        expect(explanation.error?.code).not.toBe('internal');
      }
    };
    const bases = good();
    const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 });
    fc.assert(
      fc.property(fc.constantFrom(...bases), edits, fc.nat(), (base, changes, cut) => {
        const bytes = Uint8Array.from(typeof base === 'string' ? Buffer.from(base) : base);
        for (const [at, value] of changes) bytes[at % bytes.length] = value;
        const part = cut % 3 === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
        check(part);
        check(Buffer.from(part).toString('utf8'));
      }),
      { numRuns: 300 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => check(bytes)));
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => check(text)));
  });

  it('lists what must be loaded to explain the rest', () => {
    expect(explainFrame(hex('0201'), { preview: 10 })).toMatchObject({
      error: undefined,
      missing: ['LLAMA_BPE'],
      summary: '1 token of LLAMA_BPE',
    });
    expect(explainFrame(hex('11010101'))).toMatchObject({ missing: [], summary: /vocabulary/ });
  });
});
