import { isDeepStrictEqual } from 'node:util';

/** The work of the pages, and its expected results. */

/** zstd in a page is a WebAssembly file, which some bundlers do not copy. Without it, context does not load. */
const ZSTD_IS_WASM = false;
/** A page that connects without options loads nothing more. Until it does, the first call names little. */
const STARTS_LEAN = true;

export interface Call {
  readonly name: 'exchange' | 'useAll' | 'share';
  readonly options: object;
}

export interface Outcome {
  readonly value?: unknown;
  /** Of a failure. */
  readonly code?: string;
  readonly message?: string;
}

export interface Case extends Call {
  readonly what: string;
  readonly expected: Outcome;
}

/** The packages and files that the page can load. */
export interface Means {
  readonly hasPackages: boolean;
  /** The WebAssembly files of packages can be fetched. */
  readonly hasWasm: boolean;
  /** Where a shared session is: in a tab if the script of the worker cannot be fetched, nowhere without tabs. */
  readonly host: 'worker' | 'tab' | 'none';
}

const LEAN = { algorithms: ['NONE'], encodings: [], extensions: { context: false } };
const ALL = {
  answer: 'you asked: why?',
  streamed: 'you asked: why?',
  fetched: 'you asked: by fetch',
};

export function casesOf({ hasPackages, hasWasm, host }: Means): readonly Case[] {
  const context = hasWasm || !ZSTD_IS_WASM;
  const all = (coded: readonly string[], encoding: string | null, isCoded: boolean): Outcome => ({
    value: { ...ALL, coded: coded.map((name) => `${name}: true`), encoding, context: isCoded },
  });
  const tokens = {
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encodings: ['CL100K_BASE'],
    extensions: { context: false },
  };
  const brotli = { ...LEAN, algorithms: ['BROTLI', 'NONE'] };
  return [
    {
      what: 'send and for await',
      name: 'exchange',
      options: STARTS_LEAN ? {} : LEAN,
      expected: { value: 'you said: hello' },
    },
    {
      what: 'request, stream and fetch',
      name: 'useAll',
      options: LEAN,
      expected: all(['NONE'], null, false),
    },
    {
      what: 'HTTP in place of a WebSocket',
      name: 'useAll',
      options: { ...LEAN, transports: ['http'] },
      expected: all(['NONE'], null, false),
    },
    {
      what: 'context',
      name: 'useAll',
      options: { ...LEAN, extensions: { context } },
      expected: all(['NONE'], null, context),
    },
    {
      what: 'TOKEN_NATIVE',
      name: 'useAll',
      options: tokens,
      expected: hasPackages
        ? all(['TOKEN_NATIVE', 'NONE'], 'CL100K_BASE', false)
        : {
            code: 'vocabulary_unavailable',
            message: 'CL100K_BASE needs the package js-tiktoken: npm install js-tiktoken',
          },
    },
    {
      what: 'BROTLI',
      name: 'useAll',
      options: brotli,
      expected: hasPackages && hasWasm ? all(['BROTLI', 'NONE'], null, false) : withoutBrotli(hasPackages),
    },
    {
      what: 'a shared session',
      name: 'share',
      options: {},
      expected: {
        value: { text: ALL.answer, isShared: host !== 'none', host },
      },
    },
  ];
}

function withoutBrotli(hasPackage: boolean): Outcome {
  return {
    code: 'codec_not_loaded',
    message: hasPackage
      ? 'BROTLI and M2M need brotli_wasm_bg.wasm of brotli-wasm: copy it beside the scripts that the bundler wrote'
      : 'BROTLI and M2M need the package brotli-wasm in browsers: npm install brotli-wasm',
  };
}

/** One line for each case that came out otherwise. */
export function unexpected(cases: readonly Case[], outcomes: readonly Outcome[]): string[] {
  return cases.flatMap(({ what, expected }, i) =>
    isDeepStrictEqual(outcomes[i], expected)
      ? []
      : [`${what}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(outcomes[i])}`],
  );
}
