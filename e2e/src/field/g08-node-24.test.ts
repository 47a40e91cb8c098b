import { createServer } from 'node:http';
import { type AddressInfo, connect as connectTo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Child } from '../../../scripts/child-process.js';
import { isFull } from '../../../scripts/extent.js';
import { installNode, otherNodeMissing } from '../../../scripts/other-node.js';
import { installNode22, startUnderNode22 } from '../ai/node-22.js';
import type { OpenAICommands } from '../ai/openai-process.js';

/** The gateway under Node 24, with the versions of packages that need it: Node 20 gets older ones without a word. */

const missing = isFull ? otherNodeMissing : 'under Node 24, each night';

describe.skipIf(missing !== undefined)(missing ?? 'under Node 24', () => {
  let programs = '';
  let child: Child<OpenAICommands>;
  beforeAll(async () => {
    await installNode22();
    programs = installNode(24);
    child = startUnderNode22<OpenAICommands>('ai/openai-process', { programs });
  });
  afterAll(async () => {
    await child?.kill();
  });

  it('the packages are the newest ones', async () => {
    expect(await child.call('versions')).toEqual({
      node: expect.stringMatching(/^24\./),
      openai: expect.stringMatching(/^7\./),
      ai: expect.stringMatching(/^7\./),
      '@ai-sdk/react': expect.stringMatching(/^4\./),
    });
  });

  it('answers of an upstream are forwarded unchanged', async () => {
    expect(await child.call('compareTable')).toEqual([]);
  });

  it('the packages get over a session what they get directly', async () => {
    const compared = await child.call('compareSdks');
    expect(compared.filter(({ got, direct }) => got !== direct)).toEqual([]);
    expect(compared.length).toBeGreaterThan(80);
  });

  describe('a proxy that the environment names', () => {
    /** Answers for a host that does not exist, also through a tunnel. */
    async function startProxy() {
      const asked: string[] = [];
      const proxy = createServer((request, response) => {
        asked.push(request.url ?? '');
        request.resume();
        response.writeHead(201, { 'content-type': 'application/json' }).end('{}');
      });
      proxy.on('connect', (request, socket) => {
        asked.push(request.url ?? '');
        socket.on('error', () => {});
        const { port } = proxy.address() as AddressInfo;
        const through = connectTo(port, '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 OK\r\n\r\n');
          socket.pipe(through).pipe(socket);
        });
        through.on('error', () => {});
      });
      await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
      const { port } = proxy.address() as AddressInfo;
      return {
        asked,
        url: `http://127.0.0.1:${port}`,
        async [Symbol.asyncDispose]() {
          proxy.closeAllConnections();
          await new Promise((resolve) => proxy.close(resolve));
        },
      };
    }
    const API = 'http://api.model-provider.test/v1';

    it.each<[string, number, Record<string, string>]>([
      ['is used if Node is told to', 201, { NODE_USE_ENV_PROXY: '1' }],
      ['is not used without that, as by Node', 502, {}],
      [
        'is not used for a host of NO_PROXY',
        502,
        { NODE_USE_ENV_PROXY: '1', NO_PROXY: 'api.model-provider.test' },
      ],
    ])('%s', async (_what, status, more) => {
      await using proxy = await startProxy();
      const env = { HTTP_PROXY: proxy.url, ...more };
      const asking = startUnderNode22<OpenAICommands>('ai/openai-process', { programs, env });
      try {
        expect(await asking.call('askUpstream', API)).toBe(status);
        expect(proxy.asked.length).toBe(status === 201 ? 1 : 0);
        expect(proxy.asked.every((target) => target.includes('api.model-provider.test'))).toBe(true);
      } finally {
        await asking.kill();
      }
    });
  });
});
