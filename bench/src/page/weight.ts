import { compare, type Row } from '../row.js';
import { type Bundle, type BundledFile, bundlePage } from './bundle.js';
import { OTHERS, OURS, SOCKET_IO } from './contestants.js';
import { modulesOf, roomsOf } from './modules.js';

/** The weight of the scripts of each page after `gzip -9`. */

/**
 * Our pages and those of other libraries, against socket.io: the entry with its static imports, and every file that
 * the page could load later.
 */
export async function* weights(): AsyncGenerator<Row> {
  const found = new Map<string, { readonly eager: number; readonly all: number; readonly files: number }>();
  for (const { page } of [...OURS, ...OTHERS]) {
    await using bundle = await bundlePage(page);
    const scripts = bundle.files.filter(({ name }) => name.endsWith('.js'));
    found.set(page, {
      eager: kilobytes(scripts.filter(({ isEager }) => isEager)),
      all: kilobytes(bundle.files),
      files: bundle.files.length,
    });
  }
  const weightOf = (page: string) => found.get(page) as { eager: number; all: number; files: number };
  const baseline = weightOf(SOCKET_IO.page);
  for (const { page, title } of [...OURS, ...OTHERS]) {
    const { eager } = weightOf(page);
    const against = { name: SOCKET_IO.title, value: baseline.eager };
    yield compare(`${title}: entry`, 'kB', 'lower', eager, against);
  }
  for (const { page, title } of OURS) {
    const { all, files } = weightOf(page);
    const against = { name: SOCKET_IO.title, value: baseline.all };
    yield compare(`${title}: all ${files} files`, 'kB', 'lower', all, against);
  }
}

/** The parts of our pages: rooms, modules, and the files that they load later. */
export async function* modules(): AsyncGenerator<Row> {
  const listed = new Set<string>();
  for (const { page, title } of OURS) {
    // From the sources, because the packed build has one file in place of a hundred.
    await using bundle = await bundlePage(page, { sourcemap: true, fromSource: true });
    const entry = { name: 'entry', value: kilobytes(bundle.files.filter(({ isEager }) => isEager)) };
    const part = (name: string, { raw, gzip }: { readonly raw: number; readonly gzip: number }) =>
      compare(`${name} ${raw.toLocaleString('en-US')}`, 'kB', 'lower', gzip / 1000, entry);
    const all = await modulesOf(bundle);
    yield part(`${title}: entry`, sumOf(all));
    for (const room of roomsOf(all)) yield part(`room ${room.room}`, room);
    // Modules that an earlier page has too are listed once.
    for (const module of all) if (!listed.has(module.path)) yield part(module.path, module);
    for (const { path } of all) listed.add(path);
    for (const file of bundle.files.filter(({ isEager }) => !isEager).sort((a, b) => b.gzip - a.gzip))
      yield part(`later ${file.name} ${mainModule(bundle, file)}`, file);
  }
}

/** The largest module of a script, as chunks have names that say little. */
function mainModule({ metafile }: Bundle, { name }: BundledFile): string {
  const output = Object.entries(metafile.outputs).find(([path]) => path.endsWith(`/${name}`))?.[1];
  const [path = ''] = Object.entries(output?.inputs ?? {})
    .sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput)
    .map(([input]) => input);
  return path === '' ? '' : `(${path.replace(/^.*\/(?:node_modules|packages)\//, '')})`;
}

function sumOf(parts: readonly { readonly raw: number; readonly gzip: number }[]) {
  return parts.reduce((sum, { raw, gzip }) => ({ raw: sum.raw + raw, gzip: sum.gzip + gzip }), {
    raw: 0,
    gzip: 0,
  });
}

const kilobytes = (files: readonly { readonly gzip: number }[]) =>
  files.reduce((sum, { gzip }) => sum + gzip, 0) / 1000;
