import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, RequestError } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { PROGRAM, pythonMissing } from '../../../conformance/src/kit/python.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';

/** The client of docs/protocol/minimal-client.md, as it stands there, works with our server, whatever it has for limits. */

const PAGE = new URL('../../../docs/protocol/minimal-client.md', import.meta.url);
const SIZE = 300_000;
const MESSAGES = 400;
const PARTS = 60;

/** A program that uses the client, and prints the results as JSON. */
const PROGRAM_TEXT = `
import asyncio, json, sys
from minimal_client import Client, Failed

big = bytes(index * 7 % 251 for index in range(${SIZE}))

async def whole(client, content):
    return b"".join([part async for part in client.stream(content)])

async def main():
    client, got = Client(sys.argv[1]), {}
    await client.connect()
    got["first"] = (await client.read()).decode()
    for index in range(${MESSAGES}):
        await client.send(b"message %d" % index)
    await client.send(big)
    got["parts"] = [part.decode() async for part in client.stream(b"count")]
    got["echoed"] = await whole(client, big) == big
    several = [b"%d " % index * 20_000 for index in range(5)]
    got["several"] = await asyncio.gather(*[whole(client, each) for each in several]) == several
    try: await whole(client, b"fail")
    except Failed as error: got["error"] = str(error)
    async for part in client.stream(b"endless"): break
    got["after"] = (await whole(client, b"x")).decode()
    await client.close()
    print(json.dumps(got))

asyncio.run(main())
`;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The first listing of the page. */
function listing(): string {
  const [, code = ''] = /^```python\n([\s\S]*?)^```$/m.exec(readFileSync(PAGE, 'utf8')) ?? [];
  return code;
}

it('has at most 150 lines', () => {
  const lines = listing().split('\n').length - 1;
  expect(lines).toBeGreaterThan(100);
  expect(lines).toBeLessThanOrEqual(150);
});

describe.skipIf(pythonMissing !== undefined)(pythonMissing ?? 'the client of the page', () => {
  it.each([
    ['with its default limits', {}],
    ['without limits for credit', { sessionWindow: Infinity, sessionMemory: Infinity }],
    ['with small windows', { sessionWindow: 65_536, streamWindow: 16_384, maxStreams: 2 }],
  ])('sends, asks and resumes at a server %s', async (_what, limits) => {
    const seen: string[] = [];
    const wasStopped: boolean[] = [];
    let bytes = 0;
    let hasEnded = false;
    const server = createServer({
      limits,
      async onSession(session) {
        await session.send('welcome');
        for await (const message of session) {
          if (message.bytes.length === SIZE) bytes = message.bytes.length;
          else seen.push(message.text);
          if (seen.length % 150 === 149) proxy.cut();
        }
        hasEnded = true;
      },
      async *onRequest(request, { signal }) {
        const text = request.bytes.length < 10 ? request.text : '';
        if (text === 'fail') throw new RequestError('no_such_model', 'not here', { retryable: false });
        if (text === 'count') {
          for (let part = 0; part < PARTS; part++) {
            if (part % 25 === 20) proxy.cut();
            yield `part ${part}`;
          }
        } else if (text === 'endless') {
          yield 'part';
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          wasStopped.push(signal.aborted);
        } else {
          if (request.bytes.length === SIZE) proxy.cutAfter(SIZE / 2);
          yield request.bytes;
        }
      },
    });
    closing.push(() => server.close());
    const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
    const proxy = await createCuttingProxy(port);
    closing.push(() => proxy[Symbol.asyncDispose]());

    const { output, errors, code } = await run(`ws://127.0.0.1:${proxy.port}/session`);
    expect([errors, code]).toEqual(['', 0]);
    expect(JSON.parse(output)).toEqual({
      first: 'welcome',
      parts: Array.from({ length: PARTS }, (_, part) => `part ${part}`),
      echoed: true,
      several: true,
      error: 'no_such_model',
      after: 'x',
    });
    await expect.poll(() => hasEnded).toBe(true);
    expect(seen).toEqual(Array.from({ length: MESSAGES }, (_, index) => `message ${index}`));
    expect([bytes, wasStopped]).toEqual([SIZE, [true]]);
    expect(proxy.opened).toBeGreaterThanOrEqual(4);
    expect(server.sessions.size).toBe(0);
  });
});

async function run(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'minimal-client-'));
  closing.push(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'minimal_client.py'), listing());
  writeFileSync(join(folder, 'program.py'), PROGRAM_TEXT);
  const child = spawn(PROGRAM as string, ['-B', 'program.py', url], { cwd: folder });
  closing.push(() => child.kill('SIGKILL'));
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { output, errors, code };
}
