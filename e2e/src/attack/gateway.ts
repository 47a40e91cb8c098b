import type { Attack } from './attack.js';
import { type Bomb, blankedJson, braces, brotli, escapes, LARGEST, manyKeys } from './bombs.js';
import type { Scene } from './scene.js';

/** Requests to an API through the gateway. */

/** Requests at a fixed rate, none of which the upstream answers. */
const asking = (bomb: () => Bomb, perSecond: number, most = Infinity): Pick<Attack, 'prepare' | 'run'> => ({
  prepare: bomb,
  async run(scene) {
    const { body, parts } = bomb();
    const peer = await scene.open({ as: 'gateway' });
    await scene.flood((i) => {
      if (i >= most) return undefined;
      scene.floors++;
      peer.request(body, parts);
      return peer;
    }, perSecond);
    return undefined;
  },
});

/** Sends one request. @returns the request that the upstream received. */
async function passed(scene: Scene, json: string): Promise<string> {
  scene.upstream.behaviour = 'answer';
  scene.upstream.last = '';
  const peer = await scene.open({ as: 'gateway' });
  peer.request(json);
  await new Promise((resolve) => setTimeout(resolve, 300));
  return scene.upstream.last;
}

export const GATEWAY: readonly Attack[] = [
  { category: 'gateway', name: 'a model and 5 million braces', server: 'gateway', ...asking(braces, 2) },
  {
    category: 'gateway',
    name: 'the same where every model may be used',
    server: 'gateway-open',
    ...asking(braces, 2),
  },
  { category: 'gateway', name: 'two million keys', server: 'gateway', ...asking(manyKeys, 2) },
  { category: 'gateway', name: 'a model and 16 MiB of escapes', server: 'gateway', ...asking(escapes, 4) },
  {
    category: 'gateway',
    name: 'a model and 16 MiB of blanks',
    server: 'gateway',
    ...asking(blankedJson, 4),
  },
  {
    category: 'gateway',
    name: 'an upstream that thinks',
    server: 'gateway',
    seconds: 6,
    prepare: blankedJson,
    async run(scene) {
      const before = scene.upstream.received;
      await asking(blankedJson, Infinity, 64).run(scene);
      await scene.wait();
      const passedOn = scene.upstream.received - before;
      const most = 300 * scene.sentBytes + 64 * 64 * 1024 + LARGEST;
      return passedOn > most ? [`the upstream was sent ${passedOn} bytes for ${scene.sentBytes}`] : [];
    },
  },
  {
    category: 'gateway',
    name: 'a model spelled in another way',
    server: 'gateway',
    boundsTime: false,
    seconds: 3,
    async run(scene) {
      const problems: string[] = [];
      for (const key of ['Model', 'MODEL', '\\u004dodel', 'mode\\u006c']) {
        const json = `{"model":"gpt-4o","${key}":"o1-pro","messages":[]}`;
        if ((await passed(scene, json)).includes('o1-pro')) problems.push(`a second "${key}" was passed on`);
      }
      return problems;
    },
  },
  {
    category: 'gateway',
    name: 'usage that is hidden',
    server: 'gateway',
    boundsTime: false,
    seconds: 2,
    async run(scene) {
      const before = (await scene.server.call('counts')).usageUnknown;
      await passed(scene, '{"model":"gpt-4o","messages":[],"metadata":{"usage":"x"}}');
      const hidden = (await scene.server.call('counts')).usageUnknown - before;
      return hidden > 0 ? ['an answer that quotes "usage" after its usage was not counted'] : [];
    },
  },
  {
    category: 'gateway',
    name: 'a bomb that is no JSON',
    server: 'gateway',
    ...asking(() => brotli(Buffer.alloc(LARGEST, '"\\')), 4),
  },
];
