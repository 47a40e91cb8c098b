import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { partsOf } from './parts.js';
import type { ClientPart } from './session/part.js';
import { PartList } from './session/part-list.js';

const SOURCES = dirname(fileURLToPath(import.meta.url));

/** Files that `file` imports, and those that they import, without types and `import()`. */
function reachedFrom(file: string, reached = new Set<string>()): ReadonlySet<string> {
  if (reached.has(file)) return reached;
  reached.add(file);
  const imports = /^(?:import|export) (?!type )[^;]*?from '(\.[^']+)\.js';$/gm;
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(imports))
    reachedFrom(resolve(dirname(file), `${path}.ts`), reached);
  return reached;
}

it('loads no part without an option that asks for it', () => {
  expect(partsOf({})).toEqual([]);
  expect(partsOf({ shared: false, store: undefined, token: 'secret', reconnect: false })).toEqual([]);
});

it('loads a part once for all options that ask for it, the outermost first', () => {
  expect(partsOf({ agentId: '' })).toHaveLength(1);
  expect(partsOf({ agentId: 'a', agent: { id: 'a' }, subprotocol: 'm2m.v1.json' })).toHaveLength(1);
  const store = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
  const [shared] = partsOf({ shared: true });
  const [stored] = partsOf({ store });
  expect(partsOf({ batch: {}, store, shared: true }).slice(0, 2)).toEqual([shared, stored]);
  expect(partsOf({ batch: {}, store, shared: true })).toHaveLength(3);
});

it('keeps the code of parts out of what every page loads', () => {
  const files = [...reachedFrom(resolve(SOURCES, 'index.ts'))].map((file) => relative(SOURCES, file));
  expect(files).toContain('survival/succession.ts');
  const parts =
    /^(tabs|ai|react|inspect)\/|\/(take-up|store|entry|page-lock|retries|retried-reply|hello|answers)\.ts$/;
  expect(files.filter((file) => parts.test(file))).toEqual([]);
});

it('asks all parts, in their order, and parts that a call adds', async () => {
  const calls: string[] = [];
  const named = (name: string, more: ClientPart = {}): ClientPart => ({
    ready: () => void calls.push(name),
    ...more,
  });
  const parts = new PartList([
    named('first', { gone: () => false, plan: { agentId: 'a', rebuilds: true } }),
    named('second', { gone: () => true, isAway: true, plan: { agentId: 'b' } }),
    {},
  ]);
  parts.add(
    named('third', { lossOf: (reset) => ({ ...reset, notSent: [] }), dialing: () => Promise.resolve() }),
  );
  parts.call('ready');
  expect(calls).toEqual(['first', 'second', 'third']);
  expect(parts.call('gone')).toEqual([false, true, undefined, undefined]);
  expect(parts.plan).toEqual({ agentId: 'b', rebuilds: true });
  expect([parts.has('isAway'), parts.has('isTakenUp')]).toEqual([true, false]);
  const lost = { kind: 'message', streamId: 0 } as const;
  const reset = { reason: 'lost', notSent: [lost], unknown: [lost] };
  expect(parts.lossOf(reset)).toEqual({ ...reset, notSent: [] });
  await Promise.all(parts.call('dialing'));
});
