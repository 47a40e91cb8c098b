import { execFile } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Message, Server } from '@parlance/server';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers } from '../kit/peers.js';

/** The examples of the documents, run as they are pasted. */

const here = fileURLToPath(new URL('..', import.meta.url));
let folder: string;
beforeAll(async () => {
  // Within this package, so that the packages are found.
  folder = await mkdtemp(join(here, 'pasted-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** The code block of a document that begins with a comment with the name of the file. */
async function paste(document: string, file: string): Promise<string> {
  const text = await readFile(join(here, '../../docs', document), 'utf8');
  const block = text.split('```').find((each) => each.startsWith(`js\n// ${file}\n`));
  if (block === undefined) throw new Error(`${document} has no code block for ${file}`);
  const code = block.slice('js\n'.length);
  expect(code.trimEnd().split('\n').length - 1).toBeLessThanOrEqual(30);
  const path = join(folder, file);
  await writeFile(path, code);
  return path;
}

async function run(args: readonly string[]): Promise<string> {
  const condition = ['--import', 'tsx', '--conditions=@parlance/source'];
  const { stdout } = await promisify(execFile)(process.execPath, [...condition, ...args], { cwd: here });
  return stdout;
}

/** A session with what a file without types adds. */
interface Hinting {
  on(name: string, listener: (event: unknown) => void): () => void;
  hint(name: string, data: unknown): Promise<void>;
}

it('HTTP.md: Hono behind session.fetch', async () => {
  const stdout = await run([await paste('HTTP.md', 'hono.mjs')]);
  expect(stdout).toMatch(/^\{ hello: 'Ada', session: '[^']+' \}\n5000000 bytes\n/);
  expect(stdout).toContain('data: 1\n\ndata: 2\n\ndata: 3\n\n');
  expect(stdout).toContain('I am the client');
});

it('CONTRACTS.md: a whole program', async () => {
  const stdout = await run([await paste('CONTRACTS.md', 'contract.mjs')]);
  expect(stdout).toMatch(/^the sum is 5\n(?:counted \d\n)+sum: the input is not valid: /);
});

it('SERVER.md: groups', async () => {
  expect(await run([await paste('SERVER.md', 'groups.mjs')])).toBe('ben reads ann: hello\n');
});

it('INSPECTOR.md: a tap', async () => {
  const stdout = await run([await paste('INSPECTOR.md', 'look.mjs')]);
  expect(stdout).toMatch(/^sent HELLO \d+ offers codecs/);
  expect(stdout).toMatch(/^received response \d+ /m);
});

describe('guide/write-a-feature.md', () => {
  const peers = createPeers();
  afterEach(() => peers[Symbol.asyncDispose]());

  it('a count of words', async () => {
    const { words } = await import(await paste('guide/write-a-feature.md', 'words.mjs'));
    const onSession = async (session: AsyncIterable<Message>) => {
      for await (const message of session) void message;
    };
    const { url } = await peers.serve({ features: [words()], onRequest: () => 'no count', onSession });
    const session = await peers.dial(url);
    const count = async () => (await session.request('', { metadata: { what: 'words' } })).text;
    await session.send('one two three');
    await session.send('four');
    await expect.poll(count).toBe('4');
    expect((await session.request('anything')).text).toBe('no count');
  });

  it('a method and an event of sessions', async () => {
    const { hintingFeature, hintingModule } = await import(
      await paste('guide/write-a-feature.md', 'hinting.mjs')
    );
    const { url, server } = await peers.serve({ features: [hintingFeature] });
    const session = await peers.dial(url, { modules: [hintingModule] });
    const near = session as unknown as Hinting;
    const far = server.sessions.get(session.id) as unknown as Hinting;
    const heard: unknown[] = [];
    for (const end of [near, far]) end.on('typing', (event) => heard.push(event));
    await near.hint('typing', { who: 'Ada' });
    await far.hint('typing', { who: 'Ben' });
    expect(heard).toEqual([{ who: 'Ada' }, { who: 'Ben' }]);
    await expect(far.hint('sleeping', {})).rejects.toThrow('no event sleeping');
  });

  it('a request for what a session has asked, by its principal alone', async () => {
    const { serve } = await import(await paste('guide/write-a-feature.md', 'peek.mjs'));
    const server: Server = peers.use(
      serve(({ token }: { readonly token?: string }) => (token === undefined ? null : { principal: token })),
    );
    const { port, url } = await server.listen();
    const ann = await peers.dial(url, { token: 'ann' });
    expect((await ann.request('what is it?')).text).toBe('re: what is it?');
    const peek = async (headers: Record<string, string>) => {
      const response = await fetch(`http://127.0.0.1:${port}/peek/${ann.id}`, { headers });
      return [response.status, await response.text()];
    };
    expect(await peek({ authorization: 'Bearer ann' })).toEqual([200, 'what is it?']);
    await ann.request(Uint8Array.of(1, 2, 255)).catch(() => {});
    expect(await peek({ authorization: 'Bearer ann' })).toEqual([200, '3 bytes']);
    expect(await peek({ authorization: 'Bearer ben' })).toEqual([404, '']);
    expect((await peek({}))[0]).toBe(401);
    expect((await peek({ authorization: 'Bearer ann', origin: 'https://evil.example' }))[0]).toBe(403);
  });

  it('sessions at a second path', async () => {
    const { secondPath } = await import(await paste('guide/write-a-feature.md', 'second-path.mjs'));
    const onRequest = ({ text }: Message) => `re: ${text}`;
    const { port, server } = await peers.serve({ features: [secondPath('/second')], onRequest });
    const session = await peers.dial(`ws://127.0.0.1:${port}/second`);
    expect((await session.request('x'.repeat(1_000_000))).text).toHaveLength(1_000_004);
    expect(server.sessions.get(session.id)).toBeDefined();
  });

  it('a protocol of its own', async () => {
    expect(await run([await paste('guide/write-a-feature.md', 'brackets.mjs')])).toBe('[re: hello]\n');
  });
});

it('guide/chat-socket.md: a chat without a model', async () => {
  const { serve } = await import(await paste('guide/chat-socket.md', 'chat.mjs'));
  await using server: Server = serve(({ token }: { readonly token?: string }) => ({ principal: `${token}` }));
  const { port } = await server.listen();
  const socket = new WebSocket(`ws://127.0.0.1:${port}/chat?token=ann`);
  await once(socket, 'open');
  const messages = [{ id: '1', role: 'user', parts: [{ type: 'text', text: 'hello' }] }];
  const question = { type: 'send', requestId: '1', id: 'c', trigger: 'submit-message', messages };
  socket.send(JSON.stringify({ ...question, headers: {}, body: {} }));
  let text = '';
  for await (const [data] of on(socket, 'message')) {
    const { type, chunk } = JSON.parse(String(data));
    if (type === 'end') break;
    text += chunk.delta ?? '';
  }
  expect(text).toBe('You said: hello');
});

it('TESTING.md: a test of a handler under node --test', async () => {
  const stdout = await run(['--test', await paste('TESTING.md', 'countdown.test.mjs')]);
  expect(stdout).toMatch(/^# pass 1$|^ℹ pass 1$/m);
  expect(stdout).toMatch(/^# fail 0$|^ℹ fail 0$/m);
});

it('ENGINES.md: the contract suite of an engine under node --test', async () => {
  const stdout = await run(['--test', '--test-reporter=tap', await paste('ENGINES.md', 'engine.test.mjs')]);
  expect(stdout).toMatch(/^# fail 0$/m);
  expect(stdout).toMatch(/^# pass [6-9]\d$/m);
  expect(stdout).toContain('# SKIP the caller provides no fault "silence"');
});
