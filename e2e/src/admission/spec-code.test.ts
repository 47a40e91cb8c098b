import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ContextState } from '../../../packages/protocol/src/codec/context/state.js';

/** The code blocks of the specification that are not generated: JavaScript is run, JSON parsed, grammars resolved. */

const folder = fileURLToPath(new URL('../../../docs/protocol/', import.meta.url));

interface Block {
  readonly file: string;
  readonly language: string;
  readonly code: string;
}

async function blocks(): Promise<Block[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.md'));
  const texts = await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')));
  return texts.flatMap((text, at) =>
    [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', code = '']) => ({
      file: files[at] as string,
      language,
      code,
    })),
  );
}

describe('the specification', () => {
  it('has code in languages that are checked', async () => {
    const languages = new Set((await blocks()).map(({ language }) => language));
    expect([...languages].sort()).toEqual(['abnf', 'js', 'json', 'mermaid', 'python', 'text']);
  });

  it('has JSON that can be parsed', async () => {
    for (const { file, language, code } of await blocks()) {
      if (language === 'json') expect(() => JSON.parse(code), `${file}: ${code}`).not.toThrow();
    }
  });

  it('defines each rule of its grammars where it is used, once', async () => {
    const core = ['OCTET', 'ALPHA', 'DIGIT', 'VCHAR'];
    for (const { file, language, code } of await blocks()) {
      if (language !== 'abnf') continue;
      const rules = code
        .replaceAll(/;.*$/gm, '')
        .split(/^(?=[a-z][a-z0-9-]* *=)/m)
        .map((rule) => /^([a-z][a-z0-9-]*) *=([\s\S]*)$/.exec(rule))
        .filter((rule) => rule !== null);
      const names = rules.map(([, name]) => name as string);
      expect(new Set(names).size, file).toBe(names.length);
      for (const [, , body = ''] of rules) {
        const used =
          body.replaceAll(/(?:%s)?"[^"]*"|%[xbd][0-9A-Fa-f.-]+/g, ' ').match(/[A-Za-z][A-Za-z0-9-]*/g) ?? [];
        for (const name of used) expect([...names, ...core], `${file}: ${name}`).toContain(name);
      }
    }
  });
});

interface Entry {
  readonly content: Uint8Array;
  uses: number;
}
interface State {
  readonly list: readonly Entry[];
  baseOf(number: number, stream: number): Entry | undefined;
  begin(stream: number, number: number): void;
  complete(stream: number, content: Uint8Array, how: { isPart: boolean; replaces: boolean }): void;
  abandon(stream: number): void;
  end(stream: number): number | undefined;
}
type Module = { createState(parameters: { maxBytes: number; maxMessages: number }): State };

describe('the state of context, as context.md writes it', () => {
  let directory: string;
  let module: Module;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'parlance-spec-'));
    const block = (await blocks()).find(({ code }) => code.startsWith('// context-state.mjs\n'));
    const file = join(directory, 'context-state.mjs');
    await writeFile(file, block?.code ?? '');
    module = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Module;
  });
  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  const event = fc.record({
    kind: fc.constantFrom('begin', 'begin', 'begin', 'complete', 'complete', 'complete', 'abandon', 'end'),
    stream: fc.integer({ min: 1, max: 3 }),
    number: fc.nat(5),
    length: fc.constantFrom(0, 1, 300, 900, 4096, 4097),
    isPart: fc.boolean(),
    replaces: fc.boolean(),
  });

  it('keeps the state that our implementation keeps', () => {
    let [entered, histories] = [0, 0];
    fc.assert(
      fc.property(
        fc.array(event, { minLength: 20, maxLength: 60 }),
        fc.constantFrom(0, 2_000, 9_000, 9_000),
        fc.constantFrom(0, 1, 2, 4, 8),
        (events, maxBytes, maxMessages) => {
          histories++;
          const ours = new ContextState({ maxBytes, maxMessages });
          const theirs = module.createState({ maxBytes, maxMessages });
          const busy = new Map<number, number>();
          for (const [at, { kind, stream, number, length, isPart, replaces }] of events.entries()) {
            const position = busy.get(stream);
            if (kind === 'begin' && position === undefined) {
              const base = number === 0 ? undefined : ours.baseAt(number, stream);
              expect(theirs.baseOf(number, stream)?.content === base?.content).toBe(true);
              const named = base === undefined ? 0 : number;
              ours.begin(stream, base);
              theirs.begin(stream, named);
              busy.set(stream, named);
            } else if (kind === 'complete' && position !== undefined) {
              const content = new Uint8Array(length).fill(at);
              const how = { isPart, replaces: replaces && position >= 2 };
              ours.complete(stream, { content, ...how });
              theirs.complete(stream, content, how);
              busy.delete(stream);
            } else if (kind === 'abandon') {
              ours.abandon(stream);
              theirs.abandon(stream);
              busy.delete(stream);
            } else if (kind === 'end') {
              expect(theirs.end(stream)).toBe(ours.end(stream));
              busy.delete(stream);
            }
            expect(theirs.list.length).toBe(ours.bases.length);
            for (const [i, base] of ours.bases.entries())
              expect(theirs.list[i]?.content === base.content).toBe(true);
            expect(theirs.baseOf(1, stream)?.content === ours.slot(stream)?.content).toBe(true);
            entered += ours.bases.length;
          }
        },
      ),
      { numRuns: 1_000 },
    );
    expect(entered / histories).toBeGreaterThan(10);
  });
});
