import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { modulesOf } from './modules.js';
import type { ClientModule } from './session/module.js';
import { ModuleList } from './session/module-list.js';

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

it('loads no module without an option that asks for it', () => {
  expect(modulesOf({})).toEqual([]);
  expect(modulesOf({ shared: false, store: undefined, token: 'secret', reconnect: false })).toEqual([]);
});

it('loads a module once for all options that ask for it, the outermost first', () => {
  expect(modulesOf({ agentId: '' })).toHaveLength(1);
  expect(modulesOf({ agentId: 'a', agent: { id: 'a' }, subprotocol: 'm2m.v1.json' })).toHaveLength(1);
  const store = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
  const [shared] = modulesOf({ shared: true });
  expect(modulesOf({ batch: {}, shared: true, modules: [] })[1]).toBe(shared);
  expect(modulesOf({ batch: {}, shared: true, modules: [] })).toHaveLength(2);
  const [stored] = modulesOf({ store });
  expect(modulesOf({ batch: {}, store, shared: true }).slice(0, 2)).toEqual([shared, stored]);
  expect(modulesOf({ batch: {}, store, shared: true })).toHaveLength(3);
});

it('keeps the code of modules out of what every page loads', () => {
  const files = [...reachedFrom(resolve(SOURCES, 'index.ts'))].map((file) => relative(SOURCES, file));
  expect(files).toContain('reconnect/reconnecting-session.ts');
  const modules =
    /^(tabs|ai|react|inspect)\/|\/(rebuild|store|entry|page-lock|retries|retried-reply|hello|answers|added-modules|transports|http-stream|probe)\.ts$/;
  expect(files.filter((file) => modules.test(file))).toEqual([]);
});

it('asks all modules, in their order, and modules that a call adds', async () => {
  const calls: string[] = [];
  const named = (name: string, more: ClientModule = {}): ClientModule => ({
    ready: () => void calls.push(name),
    ...more,
  });
  const modules = new ModuleList([
    named('first', { gone: () => false, plan: { agentId: 'a', rebuilds: true } }),
    named('second', { gone: () => true, isAway: true, plan: { agentId: 'b' } }),
    {},
  ]);
  modules.add(
    named('third', { lossOf: (reset) => ({ ...reset, notSent: [] }), dialing: () => Promise.resolve() }),
  );
  modules.call('ready');
  expect(calls).toEqual(['first', 'second', 'third']);
  expect(modules.call('gone')).toEqual([false, true, undefined, undefined]);
  expect(modules.plan).toEqual({ agentId: 'b', rebuilds: true });
  expect([modules.has('isAway'), modules.has('isRebuilt')]).toEqual([true, false]);
  const lost = { kind: 'message', streamId: 0 } as const;
  const reset = { code: 'session_lost', reason: 'lost', notSent: [lost], unknown: [lost] } as const;
  expect(modules.lossOf(reset)).toEqual({ ...reset, notSent: [] });
  await Promise.all(modules.call('dialing'));
});
