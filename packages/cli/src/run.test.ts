import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeAvp, encodeControl, encodeM2M } from '@parlance/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPaper } from './base/testing/paper.js';
import { runCommandLine } from './run.js';

/** Command lines that run inside the test process. */

const CHAT = JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello there' }] });

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-cli-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function file(content: Uint8Array | string): string {
  const path = join(folder, `${files++}`);
  writeFileSync(path, content);
  return path;
}

async function run(...args: string[]) {
  const [output, errors] = [createPaper(), createPaper()];
  const code = await runCommandLine(args, {
    output: output.terminal,
    errors: errors.terminal,
    isTyped: false,
    variable: () => undefined,
  });
  return { code, stdout: output.text(), bytes: output.bytes(), stderr: errors.text() };
}

describe('usage', () => {
  it('is shown on request', async () => {
    const help = await run('--help');
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const name of ['serve', 'connect', 'follow', 'inspect', 'encode', 'decode', 'Exit codes: 0']) {
      expect(help.stdout).toContain(name);
    }
    for (const name of ['serve', 'connect', 'follow', 'inspect', 'encode', 'decode']) {
      const command = await run('help', name);
      expect(command).toMatchObject({ code: 0, stderr: '' });
      expect(command.stdout).toContain(`Usage: parlance ${name}`);
      expect(command.stdout).toContain('Example');
      expect(command.stdout).toContain('Exit codes: 0');
    }
    expect(await run('--version')).toMatchObject({ code: 0, stdout: '0.0.0\n' });
  });

  it.each([
    [[]],
    [['bogus']],
    [['help', 'bogus']],
    [['inspect']],
    [['inspect', '00', '--bogus']],
    [['inspect', '00', '--encoding', 'GPT2']],
    [['inspect', '00', '--preview', '-1']],
    [['encode']],
    [['encode', '--algorithm', 'ZIP']],
    [['encode', '--algorithm', 'AVP', '--shape', '4,x']],
    [['serve', '--port', '65536']],
    [['serve', '--port', '-1']],
    [['serve', '--log-level', 'loud']],
    [['serve', '--port', '0', '--origins', 'no-origin']],
    [['serve', '--port', '0', '--hosts', 'http://app.example']],
    [['serve', '--port', '0', '--trusted-proxies', '10.0.0.0/64']],
    [['serve', '--port', '0', '--upstream', 'no-url']],
    [['serve', '--port', '0', '--cluster', 'http://127.0.0.1']],
    [['serve', '--port', '0', '--cluster', 'redis://127.0.0.1:1']],
    [['serve', '--port', '0', '--cluster', 'redis://127.0.0.1:1', '--peer-port', '65536']],
    [['serve', '--port', '0', '--peer-port', '7946']],
    [['serve', '--port', '0', '--advertise', 'ws://127.0.0.1:7946']],
    [['serve', '--port', '0', '--peer-insecure']],
    [['connect']],
    [['connect', 'no-url']],
    [['connect', 'ws://127.0.0.1:1/', '--timeout', 'soon']],
    [['connect', 'ws://127.0.0.1:1/', '--subprotocol', 'chat']],
    [['follow']],
    [['follow', 'no-url']],
    [['follow', 'ws://127.0.0.1:1/', 'reply', '--after', '-1']],
    [['follow', 'ws://127.0.0.1:1/', '--stop']],
    [['follow', 'ws://127.0.0.1:1/', '--after', '1']],
  ])('of %j is wrong: exit code 2 and nothing on standard output', async (args) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).not.toBe('');
    // No stack is shown.
    expect(stderr).not.toMatch(/\n\s+at /);
  });
});

it('serve names the variable that a cluster needs, and what its address needs', async () => {
  const flags = ['serve', '--port', '0', '--cluster', 'redis://127.0.0.1:1'];
  expect((await run(...flags)).stderr).toContain('PARLANCE_CLUSTER_SECRET');
  const [output, errors] = [createPaper(), createPaper()];
  const environment = {
    output: output.terminal,
    errors: errors.terminal,
    isTyped: false,
    variable: (name: string) => (name === 'PARLANCE_CLUSTER_SECRET' ? 'sixteen bytes ...' : undefined),
  };
  expect(await runCommandLine([...flags, '--advertise', 'ws://10.0.0.7:1'], environment)).toBe(2);
  expect(errors.text().replaceAll(/\s+/g, ' ')).toContain('the port needs wss');
});

describe('inspect', () => {
  const M2M = encodeM2M(CHAT);

  it('accepts hex digits in the usual spellings, and files', async () => {
    const digits = Buffer.from(M2M).toString('hex');
    const explained = await run('inspect', digits);
    expect(explained).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['M2M v1 frame', 'gpt-4o', 'CRC-32', 'Hello there', 'the frame is valid']) {
      expect(explained.stdout).toContain(word);
    }
    expect(await run('inspect', `0x${digits.toUpperCase()}`)).toEqual(explained);
    expect(await run('inspect', digits.replaceAll(/../g, '$& '))).toEqual(explained);
    expect(await run('inspect', file(M2M))).toEqual(explained);
    expect(await run('inspect', '--as', 'hex', file(`${digits}\n`))).toEqual(explained);
  });

  it('shows bytes or JSON on request', async () => {
    const hex = await run('inspect', '--hex', '100001b24d0bfd0e00');
    expect(hex.stdout).toMatch(/3\s+b2 4d\s+token 1\s+9906\s+“Hello”/);
    const json = await run('inspect', '--json', '--encoding', 'cl100k-base', '100001b24d0bfd0e00');
    const explanation = JSON.parse(json.stdout);
    expect(explanation).toMatchObject({
      kind: 'link',
      label: 'message',
      preview: 'Hello, world!',
      sizes: { frame: 9, body: 6, content: 13 },
    });
    expect(explanation.bytes).toBeUndefined();
    expect(explanation.fields[3].children[0]).toEqual({
      name: 'token 1',
      value: 9906,
      offset: 3,
      length: 2,
      note: '“Hello”',
    });
  });

  it('guesses the vocabulary of a link frame, and notes the guess', async () => {
    const guessed = await run('inspect', '100001b24d0bfd0e00');
    expect(guessed.stdout).toContain('token IDs decoded as CL100K_BASE, a guess');
    const stated = await run('inspect', '--encoding', 'CL100K_BASE', '100001b24d0bfd0e00');
    expect(stated.stdout).not.toContain('a guess');
    // Token 150,000 exists only in O200K_BASE.
    expect((await run('inspect', '100001f09309')).stdout).toContain('decoded as O200K_BASE');
    // This token exists in no vocabulary.
    expect((await run('inspect', '100001ffff7f')).stdout).toContain("1 token of the session's vocabulary");
  });

  it('explains a damaged frame up to the fault, with exit code 1', async () => {
    const cut = await run('inspect', '--hex', Buffer.from(M2M.subarray(0, -5)).toString('hex'));
    expect(cut.code).toBe(1);
    expect(cut.stdout).toContain('gpt-4o');
    expect(cut.stdout).toMatch(/not read/);
    expect(cut.stdout).toMatch(/✗ truncated at byte \d+/);
    const json = await run('inspect', '--json', '00b2');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout).error).toMatchObject({ code: 'truncated', offset: 1 });
    expect(await run('inspect', 'ff00')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('bad_frame at byte 0'),
    });
  });

  it('notes that a protected frame is not fully checked', async () => {
    const frame = encodeM2M(CHAT, { security: { mode: 'AEAD', key: new Uint8Array(32) } });
    const { code, stdout } = await run('inspect', '--hex', file(frame));
    expect(code).toBe(0);
    expect(stdout).toContain('requires the key (AEAD)');
    expect(stdout).toContain('encrypted with ChaCha20-Poly1305');
    expect(stdout).not.toContain('Hello there');
  });

  it('treats text as a text message, without the line break at the end of the file', async () => {
    expect((await run('inspect', file('#TK|C|sk0L/Q4A\n'))).stdout).toContain('“Hello, world!”, 4 tokens');
    expect((await run('inspect', '--as', 'text', file('just text\n'))).stdout).toMatch(
      /plain text\s+9 bytes, text/,
    );
    expect((await run('inspect', '--as', 'binary', file('#TK|C|sk0L/Q4A'))).stdout).toMatch(
      /14 bytes, binary/,
    );
  });

  it('never shows a credential, whole or truncated', async () => {
    const token = 'canary-token-77b1';
    const shared = { version: '1.0', securityScanning: false, maxPayloadSize: 0, extensions: {} } as const;
    const frame = encodeControl({
      type: 'HELLO',
      sessionId: null,
      timestamp: 1,
      payload: {
        ...shared,
        shape: 'flat',
        algorithms: ['NONE'],
        encodings: [],
        preferredEncoding: null,
        supportsStreaming: true,
        auth: { token },
      },
    });
    for (const input of [frame, frame.subarray(0, -4)]) {
      for (const form of ['--hex', '--json']) {
        const { stdout, stderr } = await run('inspect', form, file(input));
        expect(stdout).toContain('HELLO');
        expect(stdout + stderr).not.toContain('canary');
        expect(stdout.replaceAll(/\s/g, '')).not.toContain(Buffer.from('canary').toString('hex'));
      }
    }
  });

  it('escapes control characters in frames', async () => {
    const { stdout } = await run('inspect', '--as', 'text', file('a\u001b[31mred\u0007\u202e'));
    expect(stdout).toContain('\\u001b[31mred\\u0007\\u202e');
    expect(['\u001b', '\u0007', '\u202e'].filter((character) => stdout.includes(character))).toEqual([]);
  });

  it('reports unreadable input', async () => {
    const failed = (message: string) => ({ code: 1, stdout: '', stderr: expect.stringContaining(message) });
    expect(await run('inspect', 'no/such/file')).toMatchObject(failed('neither a file nor'));
    expect(await run('inspect', folder)).toMatchObject(failed('directory'));
    expect(await run('inspect', '--as', 'hex', file('xyz'))).toMatchObject(failed('hex digits'));
    expect(await run('inspect', '--as', 'text', file(Uint8Array.of(0xff)))).toMatchObject(
      failed('not UTF-8'),
    );
  });
});

describe('encode and decode', () => {
  it.each(['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'])('preserve text exactly as %s', async (algorithm) => {
    const text = `${CHAT}\n`;
    const encoded = await run('encode', '--algorithm', algorithm, file(text));
    expect(encoded).toMatchObject({ code: 0, stderr: '' });
    const decoded = await run('decode', '--algorithm', algorithm.toLowerCase(), file(encoded.bytes));
    expect(decoded).toMatchObject({ code: 0, stdout: text, stderr: '' });
  });

  it('preserve JSON values as TOKEN, and ASCII text as DICTIONARY', async () => {
    const token = await run('encode', '-a', 'token', file(CHAT));
    expect(token.stdout).toMatch(/^#T1\|/);
    expect(JSON.parse((await run('decode', file(token.stdout))).stdout)).toMatchObject(JSON.parse(CHAT));
    const dictionary = await run('encode', '-a', 'dictionary', file(CHAT));
    expect((await run('decode', file(dictionary.stdout))).stdout).toBe(CHAT);
  });

  it('write binary forms, and turn text into chat requests', async () => {
    const m2m = await run('encode', '-a', 'm2m', '--binary', '--model', 'gpt-4o', file('Hello there'));
    expect(m2m.bytes).toEqual(Buffer.from(encodeM2M(CHAT)));
    const tokens = await run('encode', '-a', 'token-native', '-e', 'o200k-base', '-b', file('Hello'));
    expect(tokens.bytes[0]).toBe(1);
    expect((await run('decode', file(tokens.bytes))).stdout).toBe('Hello');
    expect(await run('encode', '-a', 'brotli', '-b', file('x'))).toMatchObject({ code: 1, stdout: '' });
  });

  it('carry tensors', async () => {
    const data = new Float32Array([1, -2, 0.5, 3]);
    const bytes = new Uint8Array(data.buffer);
    const shape = [2, 2];
    const { bytes: frame } = await run(
      'encode',
      '-a',
      'avp',
      '--shape',
      '2,2',
      '--model',
      'llama',
      file(bytes),
    );
    const description = {
      shape,
      dtype: 'float32',
      payloadType: 'hidden_state',
      metadata: { modelId: 'llama' },
    } as const;
    expect(frame).toEqual(Buffer.from(encodeAvp({ data, ...description })));
    expect((await run('decode', file(frame))).bytes).toEqual(Buffer.from(bytes));
    const small = await run(
      'encode',
      '-a',
      'avp',
      '--dtype',
      'int8',
      '--compression',
      'fast',
      file(new Uint8Array(9000)),
    );
    expect(small.bytes.length).toBeLessThan(100);
    expect((await run('decode', file(small.bytes))).bytes).toHaveLength(9000);
  });

  it('fail with a message', async () => {
    const failed = (message: string) => ({ code: 1, stdout: '', stderr: expect.stringContaining(message) });
    expect(await run('encode', '-a', 'M2M', file('no JSON'))).toMatchObject(failed('bad_json'));
    expect(await run('encode', '-a', 'NONE', file(Uint8Array.of(0xff)))).toMatchObject(failed('not UTF-8'));
    expect(await run('encode', '-a', 'AVP', '--shape', '5', file('abcd'))).toMatchObject(
      failed('bad_tensor'),
    );
    expect(await run('decode', '-a', 'M2M', file('#TK|C|sk0L/Q4A'))).toMatchObject(
      failed('TOKEN_NATIVE, not M2M'),
    );
    expect(await run('decode', file('#TK|C|sk0L/Q4'))).toMatchObject(failed('bad_base64'));
    expect(await run('decode', file(Uint8Array.of(0x14, 1)))).toMatchObject(failed('parlance inspect'));
  });

  it('write no binary data to a terminal', async () => {
    const [output, errors] = [createPaper(80), createPaper(80)];
    const around = {
      output: output.terminal,
      errors: errors.terminal,
      isTyped: true,
      variable: () => undefined,
    };
    expect(await runCommandLine(['encode', '-a', 'm2m', '-b', file(CHAT)], around)).toBe(2);
    expect(output.text()).toBe('');
    expect(errors.text()).toContain('binary data to a terminal');
  });
});
