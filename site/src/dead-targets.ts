import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Every link of the pages in a folder that leads to no file or no heading there, as `page: target`. VitePress checks no headings. */
export function deadTargets(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.html'),
  );
  const texts = new Map(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
  const ids = new Map([...texts].map(([name, text]) => [name, new Set(all(/ id="([^"]+)"/g, text))]));
  return [...texts].flatMap(([name, text]) => {
    const targets = new Set(all(/<a [^>]*?href="([^"]+)"/g, text));
    return [...targets]
      .filter((target) => !leads(name, target))
      .map((target) => `${name}: ${target} leads nowhere`);
  });

  function leads(from: string, target: string): boolean {
    const { host, pathname, hash } = new URL(target.replaceAll('&amp;', '&'), `http://site/${from}`);
    if (host !== 'site') return true;
    const path = decodeURIComponent(pathname).slice(1);
    const to = path === '' || path.endsWith('/') ? `${path}index.html` : path;
    if (!texts.has(to)) return existsSync(join(folder, to));
    return hash === '' || ids.get(to)?.has(decodeURIComponent(hash.slice(1))) === true;
  }
}

const all = (pattern: RegExp, text: string): string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found);
