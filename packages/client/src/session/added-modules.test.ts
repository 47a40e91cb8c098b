import { expect, it } from 'vitest';
import { originOf, textOf } from '../tabs/testing/origin.js';
import { createModule } from './answers.js';
import type { Setup } from './module.js';
import { type ClientSession, ClientUserSession, clientHostOf } from './session.js';
import type { SessionModule } from './session-module.js';

/** Modules of an application on sessions that tabs share. */

interface Watching extends ClientSession {
  shout(text: string): Promise<string>;
  watch(text: string): Promise<void>;
}

/** Asks in capitals, and reports the parts of a reply as events. */
const watching: SessionModule = {
  name: 'watching',
  install: (port) => ({
    verbs: {
      shout: async ({ session }: typeof port, text: string) =>
        (await session.request(text.toUpperCase())).text,
      async watch(tab: typeof port, text: string) {
        for await (const part of tab.session.stream(text)) tab.notify('part' as never, part.text as never);
      },
    },
    events: ['part' as never],
  }),
};

/** A tab with the module, as `connect` returns its session. */
async function tabWith(origin: ReturnType<typeof originOf>, module: SessionModule): Promise<Watching> {
  const tools: Pick<Setup['tools'], 'createSession' | 'hostOf'> = {
    createSession: (host) => new ClientUserSession(host),
    hostOf: clientHostOf,
  };
  const setup = { options: { modules: [module], shared: true }, limits: {}, tools } as unknown as Setup;
  const next = async () => (await origin.open()).session;
  return (await (await createModule(setup)).open?.(next)) as Watching;
}

it('have their methods and events in each tab, over the session that they share', async () => {
  const origin = originOf();
  const [one, two] = [await tabWith(origin, watching), await tabWith(origin, watching)];
  expect(origin.sessions).toHaveLength(1);
  const heard: unknown[] = [];
  one.on('part' as never, (part) => heard.push(['one', part]));
  two.on('part' as never, (part) => heard.push(['two', part]));
  expect(await Promise.all([one.shout('hello'), two.shout('there')])).toEqual(['re: HELLO', 're: THERE']);
  origin.session.answer = async function* (text) {
    yield* text.split(' ');
  };
  await two.watch('a b');
  await one.watch('c');
  expect(heard).toEqual([
    ['two', 'a'],
    ['two', 'b'],
    ['one', 'c'],
  ]);
  // The rest of the sessions is as it was.
  expect(await textOf(one.stream('d'))).toBe('d');
});

it('get the errors of their methods, and of the calls that these make, and continue', async () => {
  const origin = originOf();
  const session = await tabWith(origin, watching);
  origin.session.answer = async function* () {
    yield* [];
    throw new RangeError('in the host');
  };
  await expect(session.shout('hello')).rejects.toMatchObject({ code: 'internal' });
  await expect(session.shout(1 as never)).rejects.toThrow(TypeError);
  origin.session.answer = async function* (text) {
    yield text;
  };
  expect(await session.shout('still')).toBe('STILL');
});
