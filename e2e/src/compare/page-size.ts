import { gzipSync } from 'node:zlib';
import { type OutputChunk, rolldown } from 'rolldown';

/** Bytes that a page loads before it connects: its app in gzip, with all that this imports at once. Browsers have WebSockets themselves. */
export async function pageSize(file: string): Promise<number> {
  const bundle = await rolldown({
    input: file,
    platform: 'browser',
    external: [/^node:/, 'ws'],
    logLevel: 'silent',
  });
  const { output } = await bundle.generate({ minify: true });
  await bundle.close();
  const chunks = output.filter((each): each is OutputChunk => each.type === 'chunk');
  const loaded = new Set<OutputChunk>();
  const load = (chunk: OutputChunk | undefined): void => {
    if (chunk === undefined || loaded.has(chunk)) return;
    loaded.add(chunk);
    for (const name of chunk.imports) load(chunks.find(({ fileName }) => fileName === name));
  };
  load(chunks.find(({ isEntry }) => isEntry));
  return [...loaded].reduce((sum, { code }) => sum + gzipSync(code).length, 0);
}
