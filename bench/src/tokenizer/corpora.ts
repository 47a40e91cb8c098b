import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Texts to tokenize, from installed packages: the prose of READMEs, the source of the TypeScript compiler and
 * its messages in Chinese, Japanese and Korean. Every text is new: lines are unique and used once, so a
 * tokenizer's caches help in the next round only as far as language repeats itself.
 */
export interface Corpus {
  readonly name: string;
  /** The texts of the next round, with about as many bytes as the last; the same in every run. */
  round(): string[];
}

const require = createRequire(import.meta.url);
/** …/node_modules/.pnpm/typescript@6/node_modules/typescript/lib */
const typescript = dirname(require.resolve('typescript'));
const store = join(typescript, '../../../..');

const EMOJI = [...'😀😂🤔👍🎉🔥✅❌🚀✨💡🙏😊😭📦🐛', '👍🏽', '👩‍💻', '❤️', '🇯🇵', '🇨🇳', '🇰🇷', '⚠️'];

export function loadCorpora(): Corpus[] {
  const random = createRandom(20_240_607);
  const prose = lineSource(shuffled(proseLines(), random));
  const code = lineSource(
    readFileSync(join(typescript, '_tsc.js'), 'utf8')
      .split(/\n(?=function |var |const |class )/)
      .filter((block) => block.length > 80 && block.length < 4000),
  );
  const asian = lineSource(shuffled(asianLines(), random));
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)] as T;

  const chat = (minBytes: number) => {
    const messages = [{ role: 'system', content: prose(120) }];
    const build = () =>
      JSON.stringify({
        model: 'gpt-4o',
        messages,
        temperature: Math.round(random() * 100) / 100,
        stream: true,
      });
    while (Buffer.byteLength(build()) < minBytes) {
      messages.push({
        role: messages.length % 2 === 1 ? 'user' : 'assistant',
        content: prose(80 + random() * 700),
      });
    }
    return build();
  };

  return [
    { name: 'small-chat', round: () => Array.from({ length: 30 }, () => chat(200)) },
    { name: 'chat-10k', round: () => Array.from({ length: 3 }, () => chat(10_000)) },
    {
      name: 'prose-and-code',
      round: () => [
        Array.from({ length: 10 }, () => `${prose(2500)}\n\n\`\`\`js\n${code(2500)}\n\`\`\`\n`).join('\n'),
      ],
    },
    {
      name: 'cjk-emoji',
      round: () =>
        Array.from({ length: 12 }, () =>
          Array.from(
            { length: 8 },
            () => `${asian(160)} ${pick(EMOJI)}${random() < 0.3 ? pick(EMOJI) : ''}`,
          ).join('\n'),
        ),
    },
  ];
}

/** Rounds that the lines suffice for. */
export const MAX_ROUNDS = 18;

/** Returns lines one after another until `bytes` are reached, none of them twice. */
function lineSource(lines: readonly string[]): (bytes: number) => string {
  let next = 0;
  return (bytes) => {
    const taken: string[] = [];
    for (let length = 0; length < bytes; ) {
      const line = lines[next++];
      if (line === undefined) throw new Error(`the ${lines.length} lines of fresh text are used up`);
      taken.push(line);
      length += Buffer.byteLength(line) + 1;
    }
    return taken.join('\n');
  };
}

function proseLines(): string[] {
  const lines = new Set<string>();
  for (const file of markdownFiles()) {
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      if (line.length >= 40 && line.length <= 1200 && /[a-z] [a-z]/.test(line)) lines.add(line.trim());
    }
  }
  return [...lines];
}

/** The Markdown files beside each package's manifest, in a fixed order. */
function markdownFiles(): string[] {
  const files = new Set<string>();
  const list = (folder: string) =>
    readdirSync(folder, { withFileTypes: true }).filter((e) => !e.isSymbolicLink());
  for (const entry of list(store)) {
    const modules = join(store, entry.name, 'node_modules');
    if (!entry.isDirectory() || entry.name === 'node_modules') continue;
    for (const name of list(modules)) {
      const folder = join(modules, name.name);
      const packages = name.name.startsWith('@') ? list(folder).map((p) => join(folder, p.name)) : [folder];
      for (const path of packages) {
        for (const file of list(path)) if (/\.md$/i.test(file.name)) files.add(join(path, file.name));
      }
    }
  }
  return [...files].sort();
}

function asianLines(): string[] {
  const lines = new Set<string>();
  for (const locale of ['zh-cn', 'zh-tw', 'ja', 'ko']) {
    const file = join(typescript, locale, 'diagnosticMessages.generated.json');
    for (const line of Object.values(JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>))
      lines.add(line);
  }
  return [...lines];
}

/** A small linear congruential generator: corpora must be the same in every run. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return ((state ^ (state >>> 15)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(items: T[], random: () => number): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [items[i], items[other]] = [items[other] as T, items[i] as T];
  }
  return items;
}
