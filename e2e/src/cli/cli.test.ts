import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@parlance/client';
import { encodeM2M } from '@parlance/protocol';
import { createServer, without } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import {
  collect,
  commandLine,
  type Finished,
  freePort,
  run,
  type Serving,
  start,
  startServing,
} from '../kit/cli-process.js';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';

/** The command line in real use: processes, pipes, signals and exit codes. */

const TIMEOUT = 60_000;
const TOKEN = 'canary-token-77b1';
const CHAT = JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello there' }] });
const ESCAPE = '\u001b[';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-cli-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** Whether the output is free of internal errors. */
function isClean({ stderr, stdout }: Finished): boolean {
  return !/\n\s+at /.test(stderr + stdout) && !stdout.includes(ESCAPE) && !stderr.includes(ESCAPE);
}

describe.concurrent('a process', { timeout: TIMEOUT }, () => {
  it('prints its usage to standard output, and errors to standard error', async () => {
    const [help, nothing, wrong] = await Promise.all([run(['--help']), run([]), run(['inspect', '--bogus'])]);
    expect(help).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('Exit codes: 0') });
    expect(nothing).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Usage: parlance'),
    });
    expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('--bogus') });
    expect([help, nothing, wrong].every(isClean)).toBe(true);
  });

  it('reads and writes bytes through pipes', async () => {
    const encoded = await run(['encode', '-a', 'm2m', '--binary'], { input: CHAT });
    expect(encoded).toMatchObject({ code: 0, stderr: '', bytes: Buffer.from(encodeM2M(CHAT)) });
    const [explained, decoded, damaged] = await Promise.all([
      run(['inspect', '-'], { input: encoded.bytes }),
      run(['decode'], { input: encoded.bytes }),
      run(['inspect', '-'], { input: encoded.bytes.subarray(0, -1) }),
    ]);
    expect(explained).toMatchObject({ code: 0, stdout: expect.stringContaining('the frame is valid') });
    expect(decoded).toMatchObject({ code: 0, stdout: CHAT });
    expect(damaged).toMatchObject({ code: 1, stdout: expect.stringContaining('truncated at byte') });
    expect([explained, decoded, damaged].every(isClean)).toBe(true);
  });
});

describe.concurrent('pipes', { timeout: TIMEOUT }, () => {
  const LARGE = 'A line of some length that is repeated.\n'.repeat(100_000);

  it('get all of a large output, even if they read slowly', async () => {
    const child = start(['decode']);
    child.stdin.end(LARGE);
    let length = 0;
    for await (const chunk of child.stdout) {
      length += (chunk as Buffer).length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    // The line break at the end belongs to the file.
    expect(length).toBe(LARGE.length - 1);
  });

  it('may close early, as head does', async () => {
    const path = file('large.txt', LARGE);
    const child = start(['decode', path]);
    let stderr = '';
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString('utf8');
    });
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
    child.stdout.once('data', () => child.stdout.destroy());
    expect(await closed).toBe(0);
    expect(stderr).toBe('');
  });

  it('with the log may close: the server stops as after SIGTERM', async () => {
    const { url, child } = await startServing();
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
    child.stdout.destroy();
    const session = await connect(url, { WebSocket, reconnect: false });
    expect(await closed).toBe(0);
    // A lost connection would throw here.
    expect(await session[Symbol.asyncIterator]().next()).toMatchObject({ done: true });
  });
});

describe('serve and connect', { timeout: TIMEOUT }, () => {
  let serving: Serving;
  beforeAll(async () => {
    serving = await startServing(['--log-level', 'debug']);
  }, TIMEOUT);
  afterAll(async () => {
    await serving.stop();
  });

  it('talk: one request per line, one reply per line, and a record of the traffic', async () => {
    const input = 'why is the sky blue?\n\ncanary-payload-41 and a second line';
    const finished = await run(['connect', serving.url], { input });
    expect(finished.code).toBe(0);
    expect(finished.stdout.split('\n')).toEqual([
      expect.stringMatching(/^You said “why is the sky blue\?”: 5 words/),
      expect.stringMatching(/^You said “canary-payload-41 and a second line”: 5 words/),
      '',
    ]);
    for (const expected of [
      /→ HELLO .* offers codecs M2M, .*extensions link/,
      /← ACCEPT .* session sess_\w+ is open/,
      /vocabulary +CL100K_BASE/,
      /→ request #1 +\d+ B {2}“why is the sky blue\?”, TOKEN_NATIVE: 6 tokens for 20 bytes of text/,
      /← chunk #1/,
      /← end #3 .*the reply is complete/,
      /→ CLOSE .*CLIENT_SHUTDOWN/,
      /connection closed with 1000/,
    ]) {
      expect(finished.stderr).toMatch(expected);
    }
    expect(isClean(finished)).toBe(true);
  });

  it('print everything as JSON for programs', async () => {
    const { code, stdout, stderr } = await run(['connect', '--json', serving.url], { input: 'hello\n' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const frames = events.filter(({ event }) => event === 'frame');
    expect(frames.map(({ label }) => label)).toEqual(
      expect.arrayContaining(['HELLO', 'ACCEPT', 'request', 'chunk', 'end', 'CLOSE']),
    );
    expect(frames.every(({ error }) => error === undefined)).toBe(true);
    expect(events.find(({ event }) => event === 'agreed')).toMatchObject({
      negotiated: { encoding: 'CL100K_BASE' },
    });
    const reply = events.find(({ event }) => event === 'reply') as { text: string; parts: number };
    expect(reply.text).toContain('You said “hello”');
    expect(frames.filter(({ label }) => label === 'chunk')).toHaveLength(reply.parts);
    expect(events.at(-1)).toMatchObject({ event: 'closed', stats: { sent: { messages: 1 } } });
  });

  it('print only replies with --quiet', async () => {
    const { code, stdout, stderr } = await run(['connect', '--quiet', serving.url], { input: 'hi' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^You said “hi”.*\n$/);
  });

  it('send one-way messages, also without requests', async () => {
    const [sent, json] = await Promise.all([
      run(['connect', '-q', '--send', serving.url], { input: 'one\ntwo' }),
      run(['connect', '--subprotocol', 'm2m.v1.json', serving.url], { input: 'one\ntwo' }),
    ]);
    for (const { code, stdout } of [sent, json])
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'one\ntwo\n' });
    expect(json.stderr).toMatch(/→ DATA .*content encoded as/);
  });

  it('turn the lines into a chat, in the chosen codec', async () => {
    const finished = await run(['connect', '--model', 'gpt-4o', '--algorithm', 'M2M', serving.url], {
      input: 'first question\nsecond question\n',
    });
    expect(finished.code).toBe(0);
    expect(finished.stdout).toContain('You said “second question”');
    expect(finished.stderr).toMatch(/request #1 .*M2M request for gpt-4o, 1 message/);
    // The second request contains the first one and its answer.
    expect(finished.stderr).toMatch(/request #3 .*M2M request for gpt-4o, 3 messages/);
  });

  it('fail if a request fails', async () => {
    const finished = await run(['connect', '-a', 'm2m', serving.url], { input: 'no JSON\n' });
    expect(finished).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('bad_json') });
    expect(isClean(finished)).toBe(true);
  });

  it('talk over HTTP if both are told to, and show the same', async () => {
    const without = await startServing(['--no-http']);
    const [text, json, refused] = await Promise.all([
      run(['connect', '--transport', 'http', serving.url], { input: 'why is the sky blue?\n' }),
      run(['connect', '--transport', 'http', '--json', serving.url], { input: 'hello\n' }),
      run(['connect', '--transport', 'http', without.url], { input: 'hello\n' }),
    ]);
    expect(text.stdout).toMatch(/^You said “why is the sky blue\?”: 5 words/);
    for (const expected of [
      /→ HELLO /,
      /← ACCEPT .* session sess_\w+ is open/,
      /carried by +HTTP requests/,
      /← end #1 .*the reply is complete/,
      /connection closed with 1000/,
    ])
      expect(text.stderr).toMatch(expected);
    const events = json.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events.find(({ event }) => event === 'agreed')).toMatchObject({ transport: 'http' });
    expect(events.find(({ what }) => what === 'opening')).toMatchObject({
      url: expect.stringMatching(/^http:/),
    });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('over HTTP') });
    expect([text, json, refused].every(isClean)).toBe(true);
    expect(await without.stop()).toBe(0);
  });

  it('exit with code 0 after SIGTERM, and log neither content nor credentials', async () => {
    const own = await startServing(['--log-level', 'debug'], { PARLANCE_TOKEN: TOKEN });
    const input = 'canary-payload-88\n';
    const [without, wrong, right, fromEnvironment] = await Promise.all([
      run(['connect', own.url], { input, env: { PARLANCE_TOKEN: '' } }),
      run(['connect', '--token', 'another', own.url], { input }),
      run(['connect', '--token', TOKEN, own.url], { input }),
      run(['connect', '--json', own.url], { input, env: { PARLANCE_TOKEN: TOKEN } }),
    ]);
    expect(wrong).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('refused the session'),
    });
    expect(wrong.stderr).toContain('4401');
    expect(without).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('set PARLANCE_TOKEN or use --token'),
    });
    expect(right.code).toBe(0);
    expect(fromEnvironment.code).toBe(0);
    for (const { stdout, stderr } of [right, fromEnvironment]) expect(stdout + stderr).not.toContain(TOKEN);
    expect(await own.stop()).toBe(0);
    const log = own.log();
    const entries = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { msg: string });
    expect(entries.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['session accepted', 'closed']));
    expect(log).not.toContain('canary');
  });

  it('disconnect in order after SIGINT, and the client moves to the next server', async () => {
    const port = await freePort();
    const own = await startServing(['--port', port]);
    const client = start(['connect', own.url]);
    const seen = collect(client.stderr);
    const replies = collect(client.stdout);
    client.stdin.write('first question\n');
    await vi.waitFor(() => expect(replies()).toContain('first question'), TIMEOUT);
    expect(await own.stop('SIGINT')).toBe(0);
    expect(seen()).toMatch(/← GOAWAY .*the server shuts down/);

    const next = await startServing(['--port', port]);
    client.stdin.end('second question\n');
    const code = await new Promise<number | null>((resolve) => client.once('close', resolve));
    expect(await next.stop()).toBe(0);
    expect({ code, failed: /✗.*/.exec(seen())?.[0] }).toEqual({ code: 0, failed: undefined });
    expect(replies()).toContain('You said “second question”');
    expect(seen().match(/→ HELLO/g)?.length).toBeGreaterThanOrEqual(2);
    // Failed attempts in between do not count as connections.
    expect(seen()).not.toContain('1006');
  });

  it('forward to an upstream and show the text of its answers', async () => {
    await using upstream = await startOpenAIUpstream();
    const own = await startServing(['--upstream', upstream.baseUrl], { OPENAI_API_KEY: 'canary-key' });
    const [answered, raw] = await Promise.all([
      run(['connect', '--model', 'chat', own.url], { input: 'Who goes there?' }),
      run(['connect', '-q', own.url], { input: 'no chat request' }),
    ]);
    expect(await own.stop()).toBe(0);
    expect(answered.code).toBe(0);
    expect(answered.stdout).toContain('Tokens travel — Grüße, 世界!');
    expect(upstream.requests.find(({ body }) => body.includes('model'))).toMatchObject({
      body: '{"model":"chat","messages":[{"role":"user","content":"Who goes there?"}],"stream":true}',
      headers: { authorization: 'Bearer canary-key' },
    });
    expect(raw.code).toBe(1);
    expect(answered.stderr + raw.stderr + own.log()).not.toContain('canary-key');
  });

  it('say why they cannot start', async () => {
    const { port } = new URL(serving.url.replace('ws:', 'http:'));
    const [taken, metrics, unreachable, path] = await Promise.all([
      run(['serve', '--port', port]),
      run(['serve', '--port', '0', '--metrics-port', port]),
      run(['connect', 'ws://127.0.0.1:1/session']),
      run(['connect', serving.url.replace('/session', '/elsewhere')]),
    ]);
    expect(taken).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('that port is in use'),
    });
    // It must not keep the port that it has already opened.
    expect(metrics).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`cannot listen on 127.0.0.1:${port}`),
    });
    expect(unreachable).toMatchObject({ code: 1, stderr: expect.stringContaining('ECONNREFUSED') });
    expect(path).toMatchObject({ code: 1, stderr: expect.stringContaining('404') });
    // No line about a connection that was never open.
    for (const { stderr } of [unreachable, path]) expect(stderr).not.toContain('1006');
    expect([taken, unreachable, path].every(isClean)).toBe(true);
  });

  // The system's `script` provides a pseudo-terminal.
  const hasScript = spawnSync('script', ['--version']).status === 0;
  it.skipIf(!hasScript)('use colour on a terminal, unless NO_COLOR is set', async () => {
    for (const env of [{}, { NO_COLOR: '1' }]) {
      const shown = spawnSync(
        'script',
        ['-qec', commandLine('inspect', '--hex', '100001b24d0bfd0e00'), '/dev/null'],
        {
          env: {
            ...process.env,
            FORCE_COLOR: undefined,
            NO_COLOR: undefined,
            CI: undefined,
            TERM: 'xterm-256color',
            ...env,
          },
          encoding: 'utf8',
        },
      );
      expect(shown.stdout).toContain('Hello');
      expect(shown.stdout.includes(ESCAPE)).toBe(!('NO_COLOR' in env));
    }
  });

  it.skipIf(!hasScript)('prompt, edit lines and accept commands on a terminal', () => {
    const typed = 'hellp\u007fo\r/send a note\r/help\r/quit\r';
    const shown = spawnSync('script', ['-qec', commandLine('connect', serving.url), '/dev/null'], {
      input: typed,
      env: { ...process.env, TERM: 'xterm-256color' },
      encoding: 'utf8',
      timeout: TIMEOUT,
    });
    expect(shown.stdout).toContain('> ');
    expect(shown.stdout).toContain('You said “hello”');
    expect(shown.stdout).toContain('a note');
    expect(shown.stdout).toContain('/stats');
    expect(shown.stdout).toContain('session closed');
  });
});

describe('follow', { timeout: TIMEOUT }, () => {
  it('lists the replies of the built-in responder and prints them, also from the middle', async () => {
    const serving = await startServing();
    const asked = await run(['connect', '-q', serving.url], { input: 'why is the sky blue?' });
    const list = await run(['follow', '-q', serving.url]);
    expect(list).toMatchObject({ code: 0, stderr: '' });
    const [, id = '', parts = ''] = /^(reply_\w{22}) {2}complete {2}(\d+) /m.exec(list.stdout) ?? [];
    const [whole, rest, after] = await Promise.all([
      run(['follow', serving.url, id]),
      run(['follow', '-q', serving.url, id, '--after', '4']),
      run(['follow', '-q', serving.url, id, '--after', parts]),
    ]);
    expect(whole).toMatchObject({ code: 0, stdout: asked.stdout });
    expect(whole.stderr).toContain(`the reply is complete: ${parts} parts`);
    // The first four words.
    expect(rest).toMatchObject({
      code: 0,
      stderr: '',
      stdout: asked.stdout.slice('You said “why is'.length),
    });
    expect(after).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect([list, whole, rest].every(isClean)).toBe(true);
    expect(await serving.stop()).toBe(0);
  });

  it('shows a reply to those alone who present the token', async () => {
    const serving = await startServing([], { PARLANCE_TOKEN: TOKEN });
    await run(['connect', '-q', serving.url, '--token', TOKEN], { input: 'hi' });
    const [listed, without] = await Promise.all([
      run(['follow', serving.url], { env: { PARLANCE_TOKEN: TOKEN } }),
      run(['follow', serving.url]),
    ]);
    expect(listed.stdout).toMatch(/^reply_\w{22} {2}complete/m);
    expect(without).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('set PARLANCE_TOKEN or use --token'),
    });
    expect(await serving.stop()).toBe(0);
  });

  it('prints parts as they come, says that it waits, and leaves the reply to itself on Ctrl-C', async () => {
    let release = (): void => {};
    let signal: AbortSignal | undefined;
    const server = createServer({
      authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
      async *onRequest(_request, context) {
        context.keep({ name: 'chat-42' });
        ({ signal } = context);
        yield 'Grüße ';
        yield '世界';
        await new Promise<void>((resolve) => {
          release = resolve;
          context.signal.addEventListener('abort', () => resolve());
        });
        yield '\nand more';
      },
    });
    await using _server = server;
    const { url } = await server.listen();
    await using page = await connect(url, { WebSocket, token: TOKEN });
    const asking = page.request('go').catch((error: unknown) => error);
    const env = { PARLANCE_TOKEN: TOKEN };
    const child = start(['follow', url, 'chat-42'], env);
    const [out, err] = [collect(child.stdout), collect(child.stderr)];
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
    await vi.waitFor(() => expect(out()).toBe('Grüße 世界'), TIMEOUT);
    await vi.waitFor(() => expect(err()).toContain('● waiting for part 3; Ctrl-C leaves'), TIMEOUT);
    child.kill('SIGINT');
    expect(await closed).toBe(0);
    expect(out()).toBe('Grüße 世界\n');
    const [, id = ''] = /left; continue with: parlance follow \S+ (reply_\w+) --after 2\n/.exec(err()) ?? [];
    expect(id).not.toBe('');
    expect(signal?.aborted).toBe(false);

    const stopped = await run(['follow', url, id, '--stop'], { env });
    expect(stopped).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining(`stopped ${id}`) });
    expect(signal?.aborted).toBe(true);
    expect(await asking).toMatchObject({ code: 'cancelled' });
    const rest = await run(['follow', url, 'chat-42', '--after', '1'], { env });
    expect(rest).toMatchObject({ code: 1, stdout: '世界\n', stderr: expect.stringContaining('cancelled: ') });

    void page.request('again').catch(() => {});
    const second = run(['follow', '-q', url, 'chat-42'], { env });
    await vi.waitFor(() => expect(server.sessions.size).toBe(2), TIMEOUT);
    release();
    expect(await second).toMatchObject({ code: 0, stdout: 'Grüße 世界\nand more\n', stderr: '' });
  });

  it('names the code of an error, and what to do', async () => {
    const server = createServer({ features: [without('replies')] });
    await using _server = server;
    const { url } = await server.listen();
    const keeping = await startServing();
    const [unknown, unsupported, unreachable] = await Promise.all([
      run(['follow', keeping.url, 'chat-1']),
      run(['follow', url]),
      run(['follow', 'ws://127.0.0.1:1/session', 'chat-1']),
    ]);
    for (const [finished, ...texts] of [
      [unknown, 'unknown_reply: ', `list the replies that are yours with: parlance follow ${keeping.url}`],
      [unsupported, 'unsupported: ', 'use a server that keeps replies'],
      [unreachable, 'connection_failed: ', 'ECONNREFUSED'],
    ] as const) {
      expect(finished).toMatchObject({ code: 1, stdout: '' });
      for (const text of texts) expect(finished.stderr).toContain(text);
      expect(isClean(finished)).toBe(true);
    }
    expect(await keeping.stop()).toBe(0);
  });

  it('shows the words of a streamed chat', async () => {
    await using upstream = await startOpenAIUpstream();
    const server = createServer({
      authenticate: () => ({ principal: 'ada' }),
      onRequest: createOpenAIGateway({ baseUrl: upstream.baseUrl, keep: true }),
    });
    await using _server = server;
    const { url } = await server.listen();
    await using page = await connect(url, { WebSocket });
    const response = await page.fetch('/v1/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ model: 'm', messages: [], stream: true }),
    });
    await response.text();
    const id = response.headers.get('x-parlance-reply') as string;
    const shown = await run(['follow', '-q', url, id]);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).toMatch(/^Tokens travel — Grüße, 世界! 👩‍👩‍👧 — .*\nand data: like lines\.\n$/);
  });
});
