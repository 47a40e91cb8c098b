/**
 * The bundlers, each with the shortest command that works. They need no configuration for our packages, except Parcel,
 * which ignores the `exports` of packages by default.
 */

export interface Bundler {
  readonly name: string;
  /** Its npm packages, in exact versions. */
  readonly packages: readonly string[];
  /** Part of `--short`. */
  readonly isShort: boolean;
  /** Also built without the optional packages. */
  readonly isBareToo: boolean;
  /** Arguments of npx. */
  readonly command: readonly string[];
  /** The folder that it writes. */
  readonly output: string;
  /** Folders with what it remembers of earlier builds. */
  readonly caches: readonly string[];
  /** It writes no HTML: a page that loads this script is added. */
  readonly script?: string;
  /** It copies the WebAssembly file of a package that the package finds with `new URL(…, import.meta.url)`. */
  readonly copiesWasm: boolean;
  /** It bundles the script of a worker that is named in the same way. */
  readonly findsWorkers: boolean;
}

const NEXT = {
  packages: ['next@16.4.6', 'react@19.3.1', 'react-dom@19.3.1'],
  output: 'out',
  caches: ['.next'],
  copiesWasm: true,
  findsWorkers: true,
  isBareToo: true,
};

export const BUNDLERS: readonly Bundler[] = [
  {
    name: 'Vite',
    packages: ['vite@8.3.8'],
    isShort: true,
    isBareToo: true,
    command: ['vite', 'build', '--outDir', 'vite', '--logLevel', 'warn'],
    output: 'vite',
    caches: ['node_modules/.vite'],
    copiesWasm: true,
    findsWorkers: true,
  },
  {
    name: 'webpack',
    packages: ['webpack@5.112.2', 'webpack-cli@7.3.1'],
    isShort: true,
    isBareToo: true,
    command: [
      'webpack',
      '--mode',
      'production',
      '--entry',
      './entry.js',
      '-o',
      'webpack',
      '--stats',
      'errors-only',
    ],
    output: 'webpack',
    caches: [],
    script: 'main.js',
    copiesWasm: true,
    findsWorkers: true,
  },
  {
    name: 'esbuild',
    packages: ['esbuild@0.28.2'],
    isShort: true,
    isBareToo: true,
    command: [
      ...['esbuild', 'entry.js', '--bundle', '--splitting', '--format=esm', '--minify'],
      ...['--outdir=esbuild', '--log-level=error'],
    ],
    output: 'esbuild',
    caches: [],
    script: 'entry.js',
    copiesWasm: false,
    findsWorkers: false,
  },
  {
    name: 'Rollup',
    packages: ['rollup@4.68.7', '@rollup/plugin-node-resolve@16.0.3', '@rollup/plugin-commonjs@29.0.3'],
    isShort: false,
    isBareToo: true,
    command: [
      'rollup',
      'entry.js',
      '-d',
      'rollup',
      '-p',
      'node-resolve={browser:true}',
      '-p',
      'commonjs',
      '--silent',
    ],
    output: 'rollup',
    caches: [],
    script: 'entry.js',
    copiesWasm: false,
    findsWorkers: false,
  },
  {
    name: 'Parcel',
    packages: ['parcel@2.16.4'],
    isShort: false,
    // It refuses to build if a package is missing, wherever its import is.
    isBareToo: false,
    command: [
      'parcel',
      'build',
      'index.html',
      '--dist-dir',
      'parcel',
      '--log-level',
      'error',
      '--no-source-maps',
    ],
    output: 'parcel',
    caches: ['.parcel-cache'],
    copiesWasm: true,
    findsWorkers: true,
  },
  { ...NEXT, name: 'Next with Turbopack', isShort: true, command: ['next', 'build'] },
  { ...NEXT, name: 'Next with webpack', isShort: false, command: ['next', 'build', '--webpack'] },
];
