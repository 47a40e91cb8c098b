import * as zlib from 'node:zlib';
import { type Answer, type Exchange, turn } from './upstream.js';
import { type Asking, CHAT, type Observed, THROUGH, type Through } from './ways.js';

/** Behaviours of an API. A client over a session sees the same as directly, but for the named differences. */

export interface Case extends Asking {
  readonly name: string;
  readonly answer: Answer;
  readonly named?: readonly Named[];
}

/** A difference from the direct call. */
export interface Named {
  readonly ways: readonly Through[];
  /** A sentence of docs/HTTP.md, or the part of one that says this. */
  readonly says: string;
  readonly becomes: (direct: Observed) => Partial<Observed>;
}

const GATEWAY = ['gateway', 'gateway with fetch'] as const;
const FETCH = ['onFetch', 'onFetch of a client'] as const;

const EVENTS = { 'content-type': 'text/event-stream' };
const JSON_TYPE = { 'content-type': 'application/json' };
const delta = (content: string, more = '') =>
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]${more}}`;
const LAST =
  '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}';

type Step = readonly [piece: string | Uint8Array, needle?: string];

/** Answers in pieces, each of which the reader has to have before the next one is sent. */
function inPieces(status: number, headers: Record<string, string>, steps: readonly Step[]): Answer {
  return async ({ request, response, seen }) => {
    request.resume();
    response.writeHead(status, headers);
    response.flushHeaders();
    await seen('head');
    for (const [piece, needle = Buffer.from(piece).toString('latin1')] of steps) {
      response.write(piece);
      if (needle !== '') await seen(needle);
    }
    response.end();
  };
}

const whole =
  (status: number, headers: Record<string, string>, body: string | Uint8Array): Answer =>
  ({ request, response }) => {
    request.resume();
    response.writeHead(status, headers);
    response.end(body);
  };

/** Answers in segments of one byte. */
const byteByByte =
  (headers: Record<string, string>, body: Uint8Array): Answer =>
  async ({ request, response }) => {
    request.resume();
    response.writeHead(200, headers);
    for (const byte of body) {
      response.write(Uint8Array.of(byte));
      await turn();
    }
    response.end();
  };

/** Answers on the socket itself. */
const raw =
  (text: string): Answer =>
  async ({ body, socket }) => {
    await body();
    socket.end(text);
  };

const rewritten = (body: string): Named => ({
  ways: THROUGH,
  says: 'Each event is written again',
  becomes: () => ({ body: Buffer.from(body).toString('latin1') }),
});
const STAYS = 'Comments and `retry` stay behind';
const commentsStay = (body: string): Named => ({ ways: THROUGH, says: STAYS, becomes: () => ({ body }) });

/** An answer of the gateway in place of the upstream. */
const failsWith = (status: number, code: string, message: string, more: Partial<Observed> = {}) => ({
  status,
  headers: JSON_TYPE,
  body: JSON.stringify({ error: { message, type: 'gateway_error', param: null, code } }),
  failed: false,
  ...more,
});

/** A failure before the head is a status. */
const isStatus: readonly Named[] = [
  {
    ways: GATEWAY,
    says: 'An upstream that fails before its head is a status of the gateway',
    becomes: () => failsWith(502, 'upstream_interrupted', 'the connection to the upstream was lost'),
  },
  {
    ways: FETCH,
    says: 'If the handler throws, or returns something that is not a response, the status is 500',
    becomes: () => ({
      status: 500,
      headers: { 'content-type': 'text/plain;charset=UTF-8' },
      body: 'Internal Server Error',
      failed: false,
    }),
  },
];

const notServed = (message: string, code = 'method_not_allowed', status = 405): Named => ({
  ways: GATEWAY,
  says: 'answers everything else itself, with 404 or 405',
  becomes: ({ asked }) => failsWith(status, code, message, { asked: asked - 1 }),
});

/** Answers with what arrived of the request. */
const echo: Answer = async ({ request, response, body }: Exchange) => {
  const content = await body();
  const { method, url, headers } = request;
  response.writeHead(200, JSON_TYPE);
  response.end(
    JSON.stringify({ method, url, type: headers['content-type'], body: content.toString('latin1') }),
  );
};

const coded = (coding: string, content: Uint8Array): Answer =>
  whole(200, { ...JSON_TYPE, 'content-encoding': coding }, content);
const TEXT = JSON.stringify({ choices: [], text: 'Grüße, 世界! 👋'.repeat(20) });
const undecoded = (code: string, message: string): Named => ({
  ways: ['gateway'],
  says: 'A body that cannot be decoded',
  becomes: () => failsWith(502, code, message),
});

const EMOJI = 'Grüße, 世界 👩‍👩‍👧';

const events: readonly Case[] = [
  {
    name: 'events, one at a time',
    answer: inPieces(200, EVENTS, [
      [`${delta('one')}\n\n`, 'one'],
      [`${delta('two')}\n\n`, 'two'],
      ['data: [DONE]\n\n', '[DONE]'],
    ]),
  },
  {
    name: 'events in segments of one byte',
    answer: byteByByte(
      EVENTS,
      Buffer.from(`${delta(EMOJI)}\n\nevent: x\nid: 7\ndata: {"a":"é"}\n\ndata: [DONE]\n\n`),
    ),
  },
  {
    name: 'events whose lines end with CR LF',
    answer: inPieces(200, EVENTS, [
      [`${delta('one')}\r\n\r\n`, 'one'],
      [`${delta('two')}\r\n\r\n`, 'two'],
    ]),
    named: [rewritten(`${delta('one')}\n\n${delta('two')}\n\n`)],
  },
  {
    name: 'events whose lines end with CR',
    answer: inPieces(200, EVENTS, [
      [`${delta('one')}\r\r`, 'one'],
      [`${delta('two')}\r\r`, 'two'],
    ]),
    named: [rewritten(`${delta('one')}\n\n${delta('two')}\n\n`)],
  },
  {
    name: 'CR LF in segments of one byte',
    answer: byteByByte(EVENTS, Buffer.from('data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n')),
    named: [rewritten('data: a\ndata: b\n\ndata: c\n\n')],
  },
  ...['', '\n', '\r\n'].map(
    (end): Case => ({
      name: `a last event that ends with ${JSON.stringify(end)}`,
      answer: inPieces(200, EVENTS, [
        [`${delta('one')}\n\n`, 'one'],
        [`data: ${LAST}${end}`, ''],
      ]),
    }),
  ),
  {
    name: 'a last event that ends with CR CR',
    answer: whole(200, EVENTS, `${delta('one')}\r\rdata: ${LAST}\r\r`),
    named: [rewritten(`${delta('one')}\n\ndata: ${LAST}\n\n`)],
  },
  {
    name: 'a last event that ends with one CR',
    answer: whole(200, EVENTS, `${delta('one')}\n\ndata: ${LAST}\r`),
  },
  { name: 'half an event at the end', answer: whole(200, EVENTS, `${delta('one')}\n\ndata: {"choi`) },
  {
    name: 'JSON behind the last event',
    answer: whole(200, EVENTS, `${delta('one')}\n\n{"error":{"message":"no"}}`),
  },
  { name: 'a single event without its blank line', answer: whole(200, EVENTS, `data: ${LAST}`) },
  { name: 'no events', answer: whole(200, EVENTS, '') },
  {
    name: 'names, IDs and several lines of data',
    answer: whole(
      200,
      EVENTS,
      'event: response.created\nid: 1\ndata: {"a":1}\n\ndata: one\ndata: two\n\ndata: \ndata: \n\ndata: x\ndata: :\n\n',
    ),
  },
  {
    name: 'fields without a space, and in another order',
    answer: whole(200, EVENTS, 'data:{"a":1}\n\ndata:b\nevent:x\n\n'),
    named: [rewritten('data: {"a":1}\n\nevent: x\ndata: b\n\n')],
  },
  {
    name: 'comments before, between and within events',
    answer: whole(200, EVENTS, ': hello\n\n: in the event\ndata: a\n\n: bye\n\ndata: b\n\n'),
    named: [commentsStay('data: a\n\ndata: b\n\n')],
  },
  {
    name: 'comments while the model thinks',
    answer: inPieces(200, EVENTS, [
      [': OPENROUTER PROCESSING\n\n', ':'],
      ['data: a\n\n', 'a'],
    ]),
    named: [commentsStay(':\n\ndata: a\n\n')],
  },
  {
    name: 'a reconnection time',
    answer: whole(200, EVENTS, 'retry: 1000\n\ndata: a\n\n'),
    named: [commentsStay('data: a\n\n')],
  },
  {
    name: 'bytes that are not UTF-8 in an event',
    answer: whole(200, EVENTS, Buffer.from('data: one \xf0\x9f three\n\ndata: two\n\n', 'latin1')),
    named: [
      {
        ways: THROUGH,
        says: 'Bytes that are not UTF-8 are U+FFFD in an event',
        becomes: () => ({ body: Buffer.from('data: one \ufffd three\n\ndata: two\n\n').toString('latin1') }),
      },
    ],
  },
  {
    name: 'a byte order mark before the events',
    answer: whole(200, EVENTS, '\ufeffdata: a\n\n'),
    named: [rewritten('data: a\n\n')],
  },
  {
    name: 'an event of 9 MiB',
    answer: whole(200, EVENTS, `data: {"b64":"${'QUJD'.repeat((9 * 1024 * 1024) / 4)}"}\n\ndata: b\n\n`),
  },
  {
    name: 'an event that is longer than a message',
    answer: whole(200, EVENTS, `data: a\n\ndata: ${'x'.repeat(17 * 1024 * 1024)}\n\n`),
    named: [
      {
        ways: THROUGH,
        says: 'A longer event ends the body',
        becomes: () => ({ body: 'data: a\n\n', failed: true }),
      },
    ],
  },
  {
    name: 'an error in the middle of events',
    answer: whole(200, EVENTS, `${delta('one')}\n\ndata: {"error":{"message":"overloaded","code":529}}\n\n`),
  },
  {
    name: 'a connection that breaks in the middle of events',
    answer: async ({ request, response, socket, seen }) => {
      request.resume();
      response.writeHead(200, EVENTS);
      response.write(`${delta('one')}\n\n`);
      await seen('one');
      socket.destroy();
    },
  },
];

const TYPES = [
  'Text/Event-Stream',
  'text/event-stream; charset=utf-8',
  'text/event-stream;charset=UTF-8',
  'TEXT/EVENT-STREAM ; charset="utf-8"',
];
const labels: readonly Case[] = [
  ...TYPES.map(
    (type): Case => ({
      name: `events as ${type}`,
      answer: inPieces(200, { 'content-type': type }, [
        [`${delta('one')}\n\n`, 'one'],
        [`${delta('two')}\n\n`, 'two'],
      ]),
    }),
  ),
  ...['text/event-streams', 'text/plain', 'application/octet-stream', 'application/json'].map(
    (type): Case => ({
      name: `events as ${type}`,
      answer: inPieces(200, { 'content-type': type }, [
        [`${delta('one')}\n\n`, 'one'],
        [': comment\n\n', ': comment'],
        [`${delta('two')}\n\n`, 'two'],
      ]),
    }),
  ),
  {
    name: 'events without a label',
    answer: inPieces(200, {}, [
      [`${delta('one')}\n\n`, 'one'],
      [`${delta('two')}\n\n`, 'two'],
    ]),
  },
  {
    name: 'lines of JSON',
    answer: inPieces(200, { 'content-type': 'application/x-ndjson' }, [
      ['{"a":1}\n'],
      ['{"a":2}\n'],
      ['{"a":3}\n'],
    ]),
  },
  {
    name: 'speech',
    path: '/v1/audio/speech',
    answer: inPieces(200, { 'content-type': 'audio/mpeg' }, [
      [Buffer.from([0xff, 0xf3, 0x80, 0, 1])],
      [Buffer.alloc(2400, 0x99)],
      [Buffer.from([0xff, 0, 0x80, 2])],
    ]),
  },
  {
    name: 'text in pieces that end inside a character',
    answer: inPieces(200, { 'content-type': 'text/plain' }, [
      [Buffer.from('a\xc3', 'latin1'), 'a'],
      [Buffer.from('\xbcb\xf0\x9f', 'latin1'), 'b'],
      [Buffer.from('\x91\x8b', 'latin1'), '\x91\x8b'],
    ]),
  },
  { name: 'JSON', answer: whole(200, JSON_TYPE, TEXT) },
  { name: 'JSON in segments of one byte', answer: byteByByte(JSON_TYPE, Buffer.from(TEXT.slice(0, 60))) },
  { name: 'JSON with a byte order mark', answer: whole(200, JSON_TYPE, '\ufeff{"a":1}') },
  {
    name: 'JSON as application/json; charset=utf-8',
    answer: whole(200, { 'content-type': 'application/json; charset=utf-8' }, TEXT),
  },
  {
    name: 'JSON that is not UTF-8',
    answer: whole(200, JSON_TYPE, Buffer.from('{"a":"\xf0\x9f\xff"}', 'latin1')),
  },
  {
    name: 'text that is not UTF-8',
    answer: whole(
      200,
      { 'content-type': 'text/plain; charset=latin1' },
      Buffer.from('Gr\xfc\xdfe', 'latin1'),
    ),
  },
  { name: 'bytes without a label', answer: whole(200, {}, Buffer.from([0, 0xff, 0x80, 0xc3, 0x28])) },
  {
    name: 'a picture of a megabyte',
    answer: whole(200, { 'content-type': 'image/png' }, Buffer.alloc(1024 * 1024, 0xd8)),
  },
];

const ERROR =
  '{"error":{"message":"contents: must not be empty","type":"invalid_request_error","code":"empty"}}';
const errors: readonly Case[] = [
  ...[400, 401, 403, 404, 409, 422, 429, 500, 503, 529].map(
    (status): Case => ({
      name: `status ${status} with JSON`,
      answer: whole(status, JSON_TYPE, ERROR),
    }),
  ),
  ...[400, 429, 500].map(
    (status): Case => ({
      name: `status ${status} with JSON as events`,
      answer: whole(status, EVENTS, ERROR),
    }),
  ),
  { name: 'status 400 with an event', answer: whole(400, EVENTS, `event: error\ndata: ${ERROR}\n\n`) },
  { name: 'status 500 with a comment as events', answer: whole(500, EVENTS, ': no\n\n') },
  { name: 'status 200 with JSON as events', answer: whole(200, EVENTS, ERROR) },
  {
    name: 'status 200 with a page as events',
    answer: whole(200, EVENTS, '<!doctype html>\n<p>It works!</p>\n\n'),
  },
  {
    name: 'status 200 with JSON as events, in pieces',
    answer: inPieces(200, EVENTS, [['{"a":'], ['1}\n\n'], ['data: x']]),
  },
  {
    name: 'status 502 with a page',
    answer: whole(502, { 'content-type': 'text/html' }, '<h1>502 Bad Gateway</h1>'),
  },
  ...[
    { 'retry-after': '0' },
    { 'retry-after': '1' },
    { 'retry-after-ms': '5' },
    { 'retry-after': '1', 'x-should-retry': 'true' },
  ].map(
    (headers): Case => ({
      name: `429 with ${JSON.stringify(headers)}, asked once`,
      answer: whole(429, { ...JSON_TYPE, ...headers }, ERROR),
    }),
  ),
  { name: '503 with a pause, asked once', answer: whole(503, { ...JSON_TYPE, 'retry-after': '0' }, ERROR) },
  {
    name: 'a connection that breaks before the head',
    answer: async ({ body, socket }) => {
      await body();
      socket.destroy();
    },
    named: isStatus,
  },
  {
    name: 'something else than HTTP',
    answer: raw('\u0000\u0001 this is not HTTP\r\n\r\n'),
    named: isStatus,
  },
  {
    name: 'a body that is shorter than it was said to be',
    answer: raw('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nshort'),
  },
  {
    name: 'chunks that break off',
    answer: raw(
      'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n',
    ),
  },
  {
    name: 'status 204',
    answer: whole(204, {}, ''),
  },
  { name: 'status 201 without a body', answer: whole(201, JSON_TYPE, '') },
  {
    name: 'limits and IDs in headers',
    answer: whole(
      200,
      {
        ...JSON_TYPE,
        'x-request-id': 'req_1',
        'X-RateLimit-Remaining-Requests': '9',
        'openai-processing-ms': '12',
        'openai-version': '2020-10-01',
      },
      TEXT,
    ),
  },
  {
    name: 'hints before the answer',
    answer: async ({ body, response }) => {
      response.writeEarlyHints({ link: '</x>; rel=preload' });
      await body();
      response.writeHead(200, JSON_TYPE).end(TEXT);
    },
  },
  {
    name: 'trailers behind the body',
    answer: ({ request, response }) => {
      request.resume();
      response.writeHead(200, { ...JSON_TYPE, trailer: 'x-sum' });
      response.write(TEXT);
      response.addTrailers({ 'x-sum': '1' });
      response.end();
    },
  },
  {
    name: 'an answer before the body of the request was read',
    body: () => JSON.stringify({ model: 'm', input: 'x'.repeat(3 * 1024 * 1024) }),
    answer: ({ request, response }) => {
      response.writeHead(413, JSON_TYPE);
      response.end(ERROR);
      request.resume();
    },
  },
  {
    name: 'a connection that is closed after each answer',
    answer: ({ request, response }) => {
      request.resume();
      response.writeHead(200, { ...JSON_TYPE, connection: 'close' }).end(TEXT);
    },
  },
  {
    name: 'a connection that ends behind its answer without a word',
    answer: ({ request, response, socket }) => {
      request.resume();
      response.writeHead(200, JSON_TYPE).end(TEXT, () => socket.end());
    },
  },
];

const zstd = (zlib as { zstdCompressSync?: (bytes: Buffer) => Buffer }).zstdCompressSync;
const bytes = Buffer.from(TEXT);
const encodings: readonly Case[] = [
  { name: 'gzip', answer: coded('gzip', zlib.gzipSync(bytes)) },
  { name: 'x-gzip in capitals', answer: coded('X-GZIP', zlib.gzipSync(bytes)) },
  { name: 'deflate', answer: coded('deflate', zlib.deflateSync(bytes)) },
  { name: 'deflate without its head', answer: coded('deflate', zlib.deflateRawSync(bytes)) },
  { name: 'Brotli', answer: coded('br', zlib.brotliCompressSync(bytes)) },
  { name: 'gzip and then Brotli', answer: coded('gzip, br', zlib.brotliCompressSync(zlib.gzipSync(bytes))) },
  ...(zstd === undefined ? [] : [{ name: 'zstd', answer: coded('zstd', zstd(bytes)) }]),
  {
    name: 'gzip that is cut short',
    answer: coded('gzip', zlib.gzipSync(bytes).subarray(0, -12)),
  },
  {
    name: 'gzip without content',
    answer: ({ request, response }) => {
      request.resume();
      response.writeHead(204, { 'content-encoding': 'gzip' }).end();
    },
  },
  {
    name: 'events in gzip, each of which is flushed',
    answer: async ({ request, response, seen }) => {
      request.resume();
      response.writeHead(200, { ...EVENTS, 'content-encoding': 'gzip' });
      const gzip = zlib.createGzip();
      gzip.pipe(response);
      for (const content of ['one', 'two']) {
        gzip.write(`${delta(content)}\n\n`);
        gzip.flush();
        await seen(content);
      }
      gzip.end();
    },
  },
  {
    name: 'an unknown coding',
    answer: coded('rot13', bytes),
    named: [
      undecoded('upstream_unusable', 'the upstream coded its body as "rot13", which cannot be decoded here'),
    ],
  },
  {
    name: 'something else than the gzip that it is said to be',
    answer: coded('gzip', bytes),
  },
];

const slash =
  (status: number, target: (url: string) => string | undefined): Answer =>
  async (exchange): Promise<unknown> => {
    const { request, response, before } = exchange;
    const location = before === 0 ? target(request.url ?? '') : undefined;
    if (location === undefined) return await echo(exchange);
    request.resume();
    return response.writeHead(status, { location }).end();
  };
const OTHER = 'http://127.0.0.1:9/v1/elsewhere';
const elsewhere: Named = {
  ways: GATEWAY,
  says: 'A redirect to another origin',
  becomes: () => failsWith(502, 'upstream_unusable', 'the upstream redirected to another origin'),
};
const redirects: readonly Case[] = [
  { name: '307 for a slash', answer: slash(307, (url) => `${url}/`) },
  { name: '308 for a slash', answer: slash(308, (url) => `${url}/`) },
  {
    name: '307 with the whole address',
    answer: async (exchange) =>
      await slash(307, (url) => `http://${exchange.request.headers.host}${url}/?a=b`)(exchange),
  },
  { name: '301 of a GET', method: 'GET', path: '/v1/models', answer: slash(301, (url) => `${url}/`) },
  { name: '307 of a GET', method: 'GET', path: '/v1/models', answer: slash(307, (url) => `${url}/`) },
  {
    name: '307 to another origin',
    answer: slash(307, () => OTHER),
    named: [elsewhere, isStatus[1] as Named],
  },
  {
    name: 'redirects without an end',
    answer: ({ request, response }) => {
      request.resume();
      response.writeHead(307, { location: request.url ?? '' }).end();
    },
    named: [
      {
        ways: GATEWAY,
        says: 'at most 20 in a row',
        becomes: () => failsWith(502, 'upstream_unusable', 'the upstream redirected more than 20 times'),
      },
      isStatus[1] as Named,
    ],
  },
];

const form = (type: string, body: string): Pick<Case, 'headers' | 'body'> => ({
  headers: { 'content-type': type },
  body: () => Buffer.from(body, 'latin1'),
});
const BINARY = '\x00\xff\xfe\r\n--not the boundary\r\n\x80';
const MULTIPART = `--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n${BINARY}\r\n--b--\r\n`;
const requests: readonly Case[] = [
  {
    name: 'JSON byte for byte',
    body: () => `{ "model":\t"m", "n": 12345678901234567890, "t": "é\\u00e9" }`,
    answer: echo,
  },
  {
    name: 'a form with a file',
    path: '/v1/audio/transcriptions',
    ...form('multipart/form-data; boundary=b', MULTIPART),
    answer: echo,
  },
  {
    name: 'a form with a file of 3 MiB',
    path: '/v1/audio/transcriptions',
    ...form('multipart/form-data; boundary=b', MULTIPART.replace(BINARY, BINARY.repeat(100_000))),
    answer: echo,
  },
  {
    name: 'no body',
    method: 'DELETE',
    path: '/v1/files/file-1',
    answer: echo,
  },
  {
    name: 'JSON as application/json; charset=utf-8',
    headers: { 'content-type': 'application/json; charset=utf-8' },
    answer: echo,
  },
  ...[
    'application/json-patch+json',
    'application/json-seq',
    'application/json;profile="https://example.org/p"',
    'application/merge-patch+json',
    'Application/JSON',
    'application/jsonl',
    'application/x-www-form-urlencoded',
    'text/plain;charset=UTF-8',
  ].map(
    (type): Case => ({
      name: `a body as ${type}`,
      method: 'PATCH',
      path: '/v1/things',
      headers: { 'content-type': type },
      body: () => '[]',
      answer: echo,
      named: [
        notServed(
          'unknown path; supported endpoints: /chat/completions, /completions, /responses, /embeddings, /moderations, /images/generations, /images/edits, /images/variations, /audio/speech, /audio/transcriptions, /audio/translations, /models, /files',
          'unknown_path',
          404,
        ),
      ],
    }),
  ),
  {
    name: 'a vendor type of JSON to a model',
    headers: { 'content-type': 'application/vnd.api+json; profile="x"' },
    body: () => CHAT,
    answer: echo,
  },
  {
    name: 'HEAD',
    method: 'HEAD',
    path: '/v1/models',
    answer: whole(200, { ...JSON_TYPE, 'content-length': '12' }, ''),
    named: [
      {
        ways: GATEWAY,
        says: 'answers everything else itself, with 404 or 405',
        becomes: () => ({ status: 405, asked: 0 }),
      },
    ],
  },
  {
    name: 'a range of a file',
    method: 'GET',
    path: '/v1/files/file-1/content',
    headers: { range: 'bytes=2-5', 'if-range': '"v1"' },
    answer: async ({ request, response }) => {
      const { range } = request.headers;
      const isPart = range === 'bytes=2-5' && request.headers['if-range'] === '"v1"';
      response.writeHead(isPart ? 206 : 200, {
        'content-type': 'application/octet-stream',
        ...(isPart && { 'content-range': 'bytes 2-5/8' }),
      });
      response.end(Buffer.from([0, 1, 2, 3, 0xff, 0xfe, 6, 7]).subarray(...(isPart ? [2, 6] : [0])));
    },
  },
  {
    name: 'status 416',
    method: 'GET',
    path: '/v1/files/file-1/content',
    answer: whole(416, { 'content-range': 'bytes */8' }, ''),
  },
];

export const CASES: readonly Case[] = [
  ...events,
  ...labels,
  ...errors,
  ...encodings,
  ...redirects,
  ...requests,
];
