import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  cluster,
  createServer,
  durable,
  memoryCluster,
  type SendOptions,
  type ServerOptions,
} from '@parlance/server';
import { describe, expect, it } from 'vitest';
import { chromiumMissing } from '../kit/chat-page.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { ScenarioPage } from '../kit/scenario-page.js';

/** Pages that load their codecs after they have connected, against a real server. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of what pages load: ${missing}`);
}

const SERVER: ServerOptions = {
  async onSession(session) {
    for await (const message of session) if (message.tensor === undefined) await session.send(message.text);
  },
  async *onRequest(request, { session, signal }) {
    if (request.text === 'ask the page') yield (await session.request('who are you?')).text;
    else if (request.text === 'slow') {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    } else yield request.text;
  },
};

describe.skipIf(missing !== undefined)('a page', () => {
  const page = ScenarioPage.use(new URL('./page-loading-page.ts', import.meta.url));

  async function run(scenario: string, options: ServerOptions = SERVER) {
    return (await page.run(scenario, options)) as { result: unknown; warnings: string[] };
  }

  it('begins without codecs, and gets context once it has loaded it', async () => {
    expect(await run('default')).toEqual({
      result: {
        algorithms: ['TOKEN', 'DICTIONARY', 'NONE'],
        encoding: null,
        hasContext: true,
        first: 'NONE',
        last: 'CONTEXT',
        sentInContext: true,
      },
      warnings: [],
    });
  });

  it('says HELLO in its upgrade request, and again when its connection is lost', async () => {
    let cut = () => {};
    await using server = createServer({
      origins: [page.origin],
      async onRequest() {
        cut();
        return 'after all';
      },
    });
    const { port } = await server.listen();
    await using proxy = await createCuttingProxy(port);
    cut = () => proxy.cut();
    const read = 'm2m.v1.hello';
    expect(await page.show('early', `ws://127.0.0.1:${proxy.port}/session`)).toEqual({
      result: {
        first: { protocol: read, offers: 3, sent: 0 },
        text: 'after all',
        protocols: [read, read],
      },
      warnings: [],
    });
  });

  it('continues with a durable session in another server, and loads what that takes', async () => {
    const PARTS = 20;
    let handleHalf: () => void;
    const isHalf = new Promise<void>((resolve) => {
      handleHalf = resolve;
    });
    const options: ServerOptions = {
      origins: [page.origin],
      engine: memoryCluster(),
      features: [cluster(), durable(true, { allowVolatileEngine: true })],
      async *onRequest(_request, { yielded, ifProcessDies, signal }) {
        ifProcessDies('again');
        for (let part = yielded.length; part < PARTS && !signal.aborted; part++) {
          if (part === PARTS / 2) handleHalf();
          yield `${part} `;
          await sleep(10);
        }
      },
    };
    const former = createServer(options);
    const { port, url } = await former.listen();
    const shown = page.show('durable', url);
    await isHalf;
    await former.close();
    await using next = createServer(options);
    await next.listen({ port });
    const text = Array.from({ length: PARTS }, (_, part) => `${part} `).join('');
    expect(await shown).toMatchObject({ result: { text, isSame: true, durable: '1' } });
  });

  it('gets tokens if it names an encoding, once the vocabulary is loaded', async () => {
    expect((await run('encodings')).result).toEqual({
      encoding: 'CL100K_BASE',
      first: 'NONE',
      last: 'TOKEN_NATIVE',
    });
  });

  it('gets tokens if it has loaded a vocabulary before', async () => {
    expect((await run('loadEncoding')).result).toEqual({ encoding: 'CL100K_BASE', last: 'TOKEN_NATIVE' });
  });

  it('loads a codec that it or the server names at once', async () => {
    const echo: ServerOptions = {
      async onSession(session) {
        for await (const { text, algorithm } of session)
          await session.send(text, { algorithm } as SendOptions);
      },
    };
    expect((await run('explicit', echo)).result).toEqual(['M2M 27', 'BROTLI 2560']);
  });

  it('requests, streams, sends tensors, cancels and answers with code that it loads for that', async () => {
    expect((await run('everything')).result).toEqual({
      before: 0,
      streamed: 'stream',
      parts: 0,
      reply: 'the page answers',
      asked: ['who are you?'],
    });
  });

  it.each(['json', 'withoutLink'])(
    'loads everything first for a session without a link: %s',
    async (scenario) => {
      expect((await run(scenario)).result).toMatch(/^(DICTIONARY|NONE)$/);
    },
  );

  it('loads M2M before a session that demands protection', async () => {
    const key = Uint8Array.from({ length: 32 }, (_, i) => i);
    expect((await run('security', { ...SERVER, security: { mode: 'AEAD', key } })).result).toEqual({
      text: 'hello',
      sent: ['M2M'],
    });
  });

  it('leaves out a codec that cannot be loaded, and says so once', async () => {
    const { files, folder } = page.bundle;
    const wasm = files.find(({ name }) => name.endsWith('.wasm'));
    await rm(join(folder, wasm?.name ?? 'no WebAssembly file'));
    await page.serveAgain();
    const { result, warnings } = await run('withoutBrotli');
    expect(result).toEqual({ failure: 'codec_not_loaded', codec: 'NONE', state: 'established' });
    const ours = warnings.filter((warning) => warning.includes('is left out'));
    expect(ours).toEqual([expect.stringMatching(/^codec.unavailable: BROTLI is left out: .*brotli/)]);
  });
});
