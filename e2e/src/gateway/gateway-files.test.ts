import { randomBytes } from 'node:crypto';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientSession, connect } from '@parlance/client';
import type { RequestHandler, ServerOptions } from '@parlance/server';
import { chatHandler } from '@parlance/server/ai';
import { defineContract, serve } from '@parlance/server/contract';
import { createOpenAIGateway, type GatewayRequest, type OpenAIGatewayOptions } from '@parlance/server/openai';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers, type Peers } from '../kit/peers.js';

/** Forms, files, audio, images and models through the gateway, compared to the same calls without it. */

const KEY = 'sk-canary-3f9a61c27be04d58';
const MIB = 1024 * 1024;

let peers: Peers;
beforeEach(() => {
  peers = createPeers();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
});

interface Asked {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingMessage['headers'];
  /** Its boundary is replaced by `B`. */
  body: string;
  isComplete: boolean;
}

type Answer = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void;

const SPEECH = randomBytes(300_000);
const MODELS = {
  object: 'list',
  data: ['gpt-4o', 'whisper-1', 'o1-pro'].map((id) => ({ id, object: 'model' })),
};

const answers: Readonly<Record<string, Answer>> = {
  'GET /v1/models': (_asked, response) => json(response, MODELS),
  'GET /v1/models/gpt-4o': (_asked, response) => json(response, { id: 'gpt-4o', object: 'model' }),
  'POST /v1/audio/transcriptions': ({ body }, response) =>
    json(response, {
      text: `${body.length} bytes`,
      usage: { type: 'tokens', input_tokens: 14, output_tokens: 101, total_tokens: 115 },
    }),
  'POST /v1/audio/speech': (_asked, response) =>
    response.writeHead(200, { 'content-type': 'audio/mpeg' }).end(SPEECH),
  'POST /v1/images/generations': (_asked, response) =>
    json(response, { created: 1, data: [{ b64_json: 'AAAA' }] }),
  'POST /v1/images/edits': (_asked, response) => json(response, { created: 2, data: [{ b64_json: 'BBBB' }] }),
  'POST /v1/moderations': (_asked, response) => json(response, { id: 'modr-1', results: [] }),
  'POST /v1/files': ({ body }, response) =>
    json(response, { id: 'file-1', object: 'file', bytes: body.length }),
  'GET /v1/files?purpose=assistants': (_asked, response) => json(response, { object: 'list', data: [] }),
  'GET /v1/files/file-1': (_asked, response) => json(response, { id: 'file-1', object: 'file' }),
  'GET /v1/files/file-1/content': (_asked, response) =>
    response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(SPEECH),
  'DELETE /v1/files/file-1': (_asked, response) => json(response, { id: 'file-1', deleted: true }),
};

function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** An API that keeps what it is asked byte for byte. */
async function startUpstream() {
  const asked: Asked[] = [];
  const server = createHttpServer((request, response) => {
    const { method, url: path, headers } = request;
    const record: Asked = { method, path, headers, body: '', isComplete: false };
    asked.push(record);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    request.on('end', () => {
      const boundary = /boundary=(.*)$/.exec(headers['content-type'] ?? '')?.[1];
      const body = Buffer.concat(chunks).toString('latin1');
      record.body = boundary === undefined ? body : body.replaceAll(boundary, 'B');
      record.isComplete = true;
      const answer = answers[`${method} ${path}`];
      if (answer === undefined) json(response, { error: { message: 'not here' } }, 404);
      else answer(record, response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  peers.use({ [Symbol.asyncDispose]: async () => void server.close().closeAllConnections() });
  const { port } = server.address() as AddressInfo;
  return { asked, baseUrl: `http://127.0.0.1:${port}/v1` };
}

interface Scene {
  readonly asked: Asked[];
  readonly records: GatewayRequest[];
  readonly session: ClientSession;
  readonly direct: OpenAI;
  readonly through: OpenAI;
}

async function setUp(
  options: Partial<OpenAIGatewayOptions> = {},
  serverOptions: ServerOptions = {},
): Promise<Scene> {
  const { asked, baseUrl } = await startUpstream();
  const records: GatewayRequest[] = [];
  const onRequest = createOpenAIGateway({
    baseUrl,
    apiKey: KEY,
    onUsage: (record) => records.push(record),
    ...options,
  });
  const { url } = await peers.serve({ onRequest, limits: { bytesPerSecond: Infinity }, ...serverOptions });
  const session = peers.use(await connect(url, { WebSocket }));
  const common = { maxRetries: 0, dangerouslyAllowBrowser: true };
  return {
    asked,
    records,
    session,
    direct: new OpenAI({ ...common, baseURL: baseUrl, apiKey: KEY }),
    through: new OpenAI({ ...common, baseURL: 'http://session/v1', apiKey: 'unused', fetch: session.fetch }),
  };
}

const audio = (size: number) => new File([randomBytes(size)], 'Rede "1" ä.mp3', { type: 'audio/mpeg' });

const calls: readonly [string, (client: OpenAI, small: File, large: File) => Promise<unknown>][] = [
  ['models.list', async (client) => (await client.models.list()).data],
  ['models.retrieve', (client) => client.models.retrieve('gpt-4o')],
  [
    'audio.transcriptions.create',
    (client, file) =>
      client.audio.transcriptions.create({ file, model: 'whisper-1', timestamp_granularities: ['word'] }),
  ],
  [
    'audio.transcriptions.create with megabytes',
    (client, _small, file) => client.audio.transcriptions.create({ file, model: 'whisper-1' }),
  ],
  [
    'audio.speech.create',
    async (client) =>
      Buffer.from(
        await (
          await client.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: 'Hi' })
        ).arrayBuffer(),
      ),
  ],
  ['images.generate', (client) => client.images.generate({ model: 'gpt-image-1', prompt: 'x' })],
  ['images.edit', (client, file) => client.images.edit({ image: file, prompt: 'x', model: 'gpt-image-1' })],
  ['moderations.create', (client) => client.moderations.create({ model: 'omni', input: 'x' })],
  ['files.create', (client, file) => client.files.create({ file, purpose: 'assistants' })],
  [
    'files.create with megabytes',
    (client, _small, file) => client.files.create({ file, purpose: 'assistants' }),
  ],
  ['files.retrieve', (client) => client.files.retrieve('file-1')],
  [
    'files.content',
    async (client) => Buffer.from(await (await client.files.content('file-1')).arrayBuffer()),
  ],
  ['files.delete', (client) => client.files.delete('file-1')],
];

describe.each([
  ['every model', undefined],
  ['some models', ['gpt*', 'whisper-1', 'o1*', 'tts-1', 'omni']],
])('a gateway that allows %s answers as the API does', (_what, models) => {
  it.each(calls)('%s', async (_call, ask) => {
    const { asked, direct, through } = await setUp({ models });
    const [small, large] = [audio(50_000), audio(5 * MIB)];
    const expected = await ask(direct, small, large);
    expect(await ask(through, small, large)).toEqual(expected);
    const [first, second] = asked;
    expect(second?.body === first?.body).toBe(true);
    expect([second?.method, second?.path]).toEqual([first?.method, first?.path]);
    expect(second?.headers.authorization).toBe(`Bearer ${KEY}`);
    const typeOf = (each: Asked | undefined) => each?.headers['content-type']?.replace(/boundary=.*/, '');
    expect(typeOf(second)).toBe(typeOf(first));
  });
});

it('counts the usage of forms, of streamed ones too', async () => {
  const { records, through } = await setUp();
  await through.audio.transcriptions.create({ file: audio(5 * MIB), model: 'whisper-1' });
  await through.audio.speech
    .create({ model: 'tts-1', voice: 'alloy', input: 'Hi' })
    .then((r) => r.arrayBuffer());
  await expect.poll(() => records.length).toBe(2);
  expect(records[0]).toMatchObject({
    endpoint: '/audio/transcriptions',
    model: 'whisper-1',
    status: 200,
    outcome: 'completed',
    tokens: { promptTokens: 14, completionTokens: 101 },
  });
  expect(records[0]?.requestBytes).toBeGreaterThan(5 * MIB);
  expect(records[1]).toMatchObject({ endpoint: '/audio/speech', model: 'tts-1', replyLength: SPEECH.length });
});

const failureOf = (asking: Promise<unknown>) =>
  asking.then(
    () => 'none',
    (error: unknown) => (error instanceof OpenAI.APIError ? `${error.status} ${error.code}` : error),
  );

describe('a gateway that allows some models', () => {
  const models = ['gpt-4o', 'whisper-1'];

  it('lists only those', async () => {
    const { through } = await setUp({ models });
    const ids = (await through.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual(['gpt-4o', 'whisper-1']);
    expect(await failureOf(through.models.retrieve('o1-pro'))).toBe('403 model_not_allowed');
  });

  it('never lets the upstream have a whole form of another one, whether or not it is streamed', async () => {
    const { asked, through } = await setUp({ models });
    for (const size of [10_000, 5 * MIB]) {
      const asking = through.audio.transcriptions.create({ file: audio(size), model: 'o1-pro' });
      expect(await failureOf(asking)).toBe('403 model_not_allowed');
    }
    expect(asked.some(({ isComplete }) => isComplete)).toBe(false);
  });

  it('refuses a form that names none, or two', async () => {
    const { asked, session } = await setUp({ models });
    for (const names of [[], ['whisper-1', 'whisper-1'], ['whisper-1', 'o1-pro']]) {
      for (const size of [10, 3 * MIB]) {
        const form = new FormData();
        form.set('file', audio(size));
        for (const name of names) form.append('model', name);
        const response = await session.fetch('/v1/audio/transcriptions', { method: 'POST', body: form });
        expect([response.status, (await response.json()).error.code]).toEqual([400, 'bad_request']);
      }
    }
    expect(asked.some(({ isComplete }) => isComplete)).toBe(false);
  });
});

describe('files', () => {
  it('are listed only if the operator wants it', async () => {
    const closed = await setUp();
    expect(await failureOf(closed.through.files.list().then())).toBe('405 method_not_allowed');
    expect(closed.asked).toEqual([]);
    const open = await setUp({ files: 'all' });
    expect((await open.through.files.list({ purpose: 'assistants' })).data).toEqual([]);
    const none = await setUp({ files: false });
    expect(await failureOf(none.through.files.retrieve('file-1'))).toBe('404 unknown_path');
  });

  it('have a size of at most maxBodySize', async () => {
    const { asked, session } = await setUp({ maxBodySize: 2 * MIB });
    const boundary = 'x';
    const sent = async (size: number, isStreamed: boolean) => {
      const around = [
        `--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`,
        `\r\n--x--`,
      ];
      const content = 'y'.repeat(size - around.join('').length);
      const bytes = new Blob([around.join(content)]);
      const { status } = await session.fetch('/v1/files', {
        method: 'POST',
        headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
        body: isStreamed ? bytes.stream() : await bytes.arrayBuffer(),
        ...({ duplex: 'half' } as RequestInit),
      });
      return status;
    };
    for (const isStreamed of [true, false]) {
      expect(await sent(2 * MIB, isStreamed)).toBe(200);
      expect(await sent(2 * MIB + 1, isStreamed)).toBe(413);
    }
    expect(asked.filter(({ isComplete }) => isComplete)).toHaveLength(2);
  });

  it('require a form', async () => {
    const { session, asked } = await setUp();
    expect((await session.fetch('/v1/files', { method: 'POST', body: '{}' })).status).toBe(400);
    expect(asked).toEqual([]);
  });
});

describe('JSON that is streamed', () => {
  it('is checked as a whole', async () => {
    const { session, asked } = await setUp({ models: ['gpt-4o'] });
    const streamOf = (text: string): RequestInit => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: new Blob([text]).stream(),
      ...({ duplex: 'half' } as RequestInit),
    });
    expect((await session.fetch('/v1/moderations', streamOf('{"model":"gpt-4o","input":"ä"}'))).status).toBe(
      200,
    );
    expect((await session.fetch('/v1/moderations', streamOf('{"model":"o1-pro"}'))).status).toBe(403);
    expect(asked.map(({ body }) => Buffer.from(body, 'latin1').toString())).toEqual([
      '{"model":"gpt-4o","input":"ä"}',
    ]);
  });

  it('may be as large as a message', async () => {
    const { session } = await setUp({}, { limits: { maxMessageSize: 2 * MIB, bytesPerSecond: Infinity } });
    const sent = async (size: number) => {
      const text = JSON.stringify({ model: 'm', input: '' });
      const body = new Blob([text.replace('""', `"${'x'.repeat(size - text.length)}"`)]).stream();
      const init = { method: 'POST', body, ...({ duplex: 'half' } as RequestInit) };
      return (await session.fetch('/v1/moderations', init)).status;
    };
    expect(await sent(2 * MIB)).toBe(200);
    expect(await sent(2 * MIB + 1)).toBe(413);
  });
});

it('a producer that fails fails the call, and the upstream gets no whole form', async () => {
  const { asked, session } = await setUp();
  let chunks = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (++chunks > 3) throw new Error('the disk is broken');
      controller.enqueue(Buffer.alloc(100_000, `--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n`));
    },
  });
  const asking = session.fetch('/v1/files', {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
    body,
    ...({ duplex: 'half' } as RequestInit),
  });
  await expect(asking).rejects.toThrow('the disk is broken');
  await expect.poll(() => asked.every(({ isComplete }) => !isComplete)).toBe(true);
});

it.each([
  ['onRequest', (gateway: RequestHandler) => gateway],
  [
    'the rest of a chat handler',
    (gateway: RequestHandler) => chatHandler(() => [] as never, { otherwise: gateway }),
  ],
  [
    'the rest of a contract',
    (gateway: RequestHandler) => serve(defineContract({}), {}, { otherwise: gateway }),
  ],
])(
  'beside onFetch, the gateway as %s has its paths below /v1/, and onFetch the others',
  async (_what, wrap) => {
    const { baseUrl } = await startUpstream();
    const { url } = await peers.serve({
      onRequest: wrap(createOpenAIGateway({ baseUrl, apiKey: KEY })),
      onFetch: (request) => new Response(`mine: ${new URL(request.url).pathname}`),
    });
    const session = peers.use(await connect(url, { WebSocket }));
    expect((await (await session.fetch('/v1/models')).json()).object).toBe('list');
    for (const path of ['/models', '/v1/mine', '/']) {
      expect(await (await session.fetch(path)).text()).toBe(`mine: ${path}`);
    }
  },
);
