import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { EncodingName } from '../../base/constants.js';
import { VOCABULARY_HASHES } from '../../tokenizer/hashes.js';
import { writeTiktokenFile } from '../../tokenizer/ranks.js';
import { VOCABULARIES } from '../../tokenizer/vocabulary.js';
import type { LoadProgress } from './load.js';
import { importTokens } from './source.js';

// The comparisons need more than the default timeout on a busy machine.
vi.setConfig({ testTimeout: 60_000 });

const NAME = EncodingName.CL100K_BASE;
const TOTAL = VOCABULARIES[NAME].fileSize;
let file: Uint8Array;
beforeAll(async () => {
  file = writeTiktokenFile(await importTokens(VOCABULARIES[NAME]));
});

/** A fresh copy of the module, in which nothing is loaded. */
let load: typeof import('./load.js');
beforeEach(async () => {
  vi.resetModules();
  vi.doUnmock('llama3-tokenizer-js');
  vi.doUnmock('js-tiktoken/ranks/cl100k_base');
  load = await import('./load.js');
});

async function* chunks(content: Uint8Array, size = 100_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.length; at += size) {
    await new Promise((resolve) => setImmediate(resolve));
    yield content.subarray(at, at + size);
  }
}

const code = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: { code?: unknown; name: string }) => (error.name === 'ProtocolError' ? error.code : error.name),
  );

describe('loading', () => {
  it('happens once, however often it is requested', async () => {
    expect(load.getEncoding(NAME)).toBeUndefined();
    const [first, second] = await Promise.all([load.loadEncoding(NAME), load.loadEncoding(NAME)]);
    expect(first).toBe(second);
    expect(await load.loadEncoding(NAME)).toBe(first);
    expect(load.getEncoding(NAME)).toBe(first);
    expect(load.getEncoding('O200K_BASE')).toBeUndefined();
    expect(first).toMatchObject({ name: NAME, id: 0, size: 100_277, hash: VOCABULARY_HASHES[NAME] });
  });

  it.each([
    ['O200K_BASE', 1, 200_019],
    ['LLAMA_BPE', 2, 128_256],
  ] as const)('gives %s its numbers', async (name, id, size) => {
    expect(await load.loadEncoding(name)).toMatchObject({ name, id, size, hash: VOCABULARY_HASHES[name] });
  });

  it.each([
    ['CL100K_BASE', 'LLAMA_BPE'],
    ['LLAMA_BPE', 'CL100K_BASE'],
  ] as const)('shares the table of %s with %s', async (first, second) => {
    const texts = ['plain words', 'XMLHttpRequest tiếng Việt многие слова', '한국어 việc nhiều'];
    const before = await load.loadEncoding(first);
    const ids = texts.map((text) => [...before.encode(text)]);
    const after = await load.loadEncoding(second);
    expect(texts.map((text) => [...before.encode(text)])).toEqual(ids);
    for (const text of texts) expect(after.decode(after.encode(text))).toBe(text);
    // A token of Llama 3 only.
    const [llama, cl100k] = first === 'LLAMA_BPE' ? [before, after] : [after, before];
    expect([...llama.encode(' việc')]).toEqual([100_769]);
    expect(cl100k.encode(' việc').every((id) => id < 100_256)).toBe(true);
    expect(cl100k.encode(' việc').length).toBeGreaterThan(1);
  });

  it('loads both at the same time', async () => {
    const [llama, cl100k] = await Promise.all([
      load.loadEncoding('LLAMA_BPE'),
      load.loadEncoding('CL100K_BASE'),
    ]);
    expect([...llama.encode(' việc')]).toEqual([100_769]);
    expect([...cl100k.encode('hello world')]).toEqual([15339, 1917]);
  });

  it('refuses unknown names', async () => {
    expect(await code(load.loadEncoding('P50K_BASE' as EncodingName))).toBe('invalid_argument');
    expect(await code(load.loadEncoding('__proto__' as EncodingName))).toBe('invalid_argument');
    expect(await load.isEncodingAvailable('toString' as EncodingName)).toBe(false);
  });

  it('reports progress', async () => {
    const seen: LoadProgress[] = [];
    await load.loadEncoding(NAME, { onProgress: (progress) => seen.push(progress) });
    expect(seen).toEqual([
      { loaded: 0, total: TOTAL },
      { loaded: TOTAL, total: TOTAL },
    ]);
  });
});

describe('aborting', () => {
  it('rejects at once with the reason, before anything is loaded', async () => {
    const reason = new Error('not needed');
    await expect(load.loadEncoding(NAME, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(load.getEncoding(NAME)).toBeUndefined();
  });

  it('does not stop the load for other callers', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const aborted = load.loadEncoding(NAME, { signal: controller.signal, source: chunks(file) });
    const other = load.loadEncoding(NAME, { signal: new AbortController().signal });
    controller.abort(reason);
    await expect(aborted).rejects.toBe(reason);
    expect((await other).name).toBe(NAME);
  });

  it('stops reading when no caller waits, and starts over for the next caller', async () => {
    const controller = new AbortController();
    let given = 0;
    let closed = false;
    async function* source() {
      try {
        for await (const chunk of chunks(file, 10_000)) {
          given++;
          yield chunk;
        }
      } finally {
        closed = true;
      }
    }
    const onProgress = ({ loaded }: LoadProgress) => {
      if (loaded > 50_000) controller.abort();
    };
    const aborted = load.loadEncoding(NAME, { signal: controller.signal, source: source(), onProgress });
    expect(await code(aborted)).toBe('AbortError');
    await expect.poll(() => closed).toBe(true);
    expect(given).toBeLessThan(10);
    expect((await load.loadEncoding(NAME)).name).toBe(NAME);
  });
});

describe('a source', () => {
  it('is read chunk by chunk, with progress', async () => {
    const seen: number[] = [];
    const onProgress = ({ loaded }: LoadProgress) => seen.push(loaded);
    const encoding = await load.loadEncoding(NAME, { source: chunks(file), onProgress });
    expect([...encoding.encode('hello world')]).toEqual([15339, 1917]);
    expect(seen[0]).toBe(0);
    expect(seen.at(-1)).toBe(TOTAL);
    expect(seen.length).toBe(2 + Math.ceil(TOTAL / 100_000));
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });

  it('may be the body of a response', async () => {
    const body = new Response(file as Uint8Array<ArrayBuffer>).body as unknown as AsyncIterable<Uint8Array>;
    expect((await load.loadEncoding(NAME, { source: body })).name).toBe(NAME);
  });

  it.each<[string, (content: Uint8Array) => Uint8Array]>([
    ['changed in one byte', (content) => content.with(1000, content[1000] === 65 ? 66 : 65)],
    ['cut', (content) => content.subarray(0, -1)],
    ['longer', (content) => Buffer.concat([content, Buffer.from('\n')])],
    ['empty', () => new Uint8Array(0)],
    ['something else', (content) => new Uint8Array(content.length).fill(65)],
  ])('that is %s is refused, and another attempt may succeed', async (_, change) => {
    expect(await code(load.loadEncoding(NAME, { source: [change(file)] }))).toBe('vocabulary_mismatch');
    expect(load.getEncoding(NAME)).toBeUndefined();
    expect((await load.loadEncoding(NAME, { source: [file] })).name).toBe(NAME);
  });

  it('that fails passes on its error', async () => {
    const error = new Error('offline');
    // biome-ignore lint/correctness/useYield: it fails before it yields
    async function* failing(): AsyncGenerator<Uint8Array> {
      throw error;
    }
    await expect(load.loadEncoding(NAME, { source: failing() })).rejects.toBe(error);
  });

  it('is enough for LLAMA_BPE, without its package', async () => {
    const llama = writeTiktokenFile(await importTokens(VOCABULARIES.LLAMA_BPE));
    vi.doMock('llama3-tokenizer-js', () => {
      throw new Error('not installed');
    });
    const encoding = await load.loadEncoding('LLAMA_BPE', { source: [llama] });
    expect([...encoding.encode(' việc')]).toEqual([100_769]);
  });
});

describe('packages', () => {
  it('that are installed are available', async () => {
    for (const name of Object.values(EncodingName)) expect(await load.isEncodingAvailable(name)).toBe(true);
  });

  it.each([
    ['CL100K_BASE', 'js-tiktoken', 'js-tiktoken/ranks/cl100k_base'],
    ['O200K_BASE', 'js-tiktoken', 'js-tiktoken/ranks/o200k_base'],
    ['LLAMA_BPE', 'llama3-tokenizer-js', 'llama3-tokenizer-js'],
  ] as const)('are named if %s needs one that is missing', async (name, needed, specifier) => {
    vi.doMock(specifier, () => {
      throw new Error('not installed');
    });
    vi.resetModules();
    load = await import('./load.js');
    await expect(load.loadEncoding(name)).rejects.toMatchObject({
      code: 'vocabulary_unavailable',
      message: `${name} needs the package ${needed}: npm install ${needed}`,
    });
    vi.doUnmock(specifier);
  });

  it('that do not load are reported, with the cause', async () => {
    const cause = new Error('no network');
    vi.doMock('js-tiktoken/ranks/cl100k_base', () => {
      throw cause;
    });
    vi.resetModules();
    load = await import('./load.js');
    const promise = load.loadEncoding(NAME);
    expect(await code(promise)).toBe('vocabulary_unavailable');
    vi.doUnmock('js-tiktoken/ranks/cl100k_base');
    vi.resetModules();
    load = await import('./load.js');
    expect((await load.loadEncoding(NAME)).name).toBe(NAME);
  });

  it('with other content are refused', async () => {
    vi.doMock('js-tiktoken/ranks/cl100k_base', () => ({ default: { bpe_ranks: '! 0 IQ== Ig==' } }));
    vi.resetModules();
    load = await import('./load.js');
    expect(await code(load.loadEncoding(NAME))).toBe('vocabulary_mismatch');
  });
});
