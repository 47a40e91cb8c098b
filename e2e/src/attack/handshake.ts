import { LinkKind, Subprotocol } from '@parlance/protocol';
import type { Attack } from './attack.js';
import { MIB } from './bombs.js';
import type { Scene } from './scene.js';
import { bodyFrame, control, LINK, type Peer } from './wire.js';

/** Attacks before authentication, and by what a handshake negotiates. */

const keys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [i.toString(36), 0]));

/** Connections that begin with the same frame, some of them in parallel, until the scene is over. */
async function sayFirst(
  scene: Scene,
  text: Uint8Array | string,
  subprotocol?: Subprotocol,
): Promise<undefined> {
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!scene.isOver) {
        const peer = scene.connect(0, subprotocol);
        if (await peer.opened()) {
          peer.send(text);
          await peer.closed;
        } else await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }),
  );
  return undefined;
}

const HELLO_BASE = {
  version: '1.0',
  algorithms: ['NONE'],
  encodings: ['CL100K_BASE'],
  extensions: {},
  auth: { token: 'wrong.token' },
};
const nested = (depth: number): object => (depth === 0 ? {} : { a: nested(depth - 1) });

/** Unprotected requests to a server that demands protection, in every codec that can be negotiated. */
async function unprotected(scene: Scene, algorithms: readonly string[], codec: number, extensions: object) {
  const peer = await scene
    .open({ offer: { algorithms: algorithms as never, extensions: { link: LINK, ...extensions } } })
    .catch(() => undefined);
  if (peer === undefined) return undefined;
  const body = codec === 4 ? Uint8Array.from([0, 0, 0, 0, 0]) : codec === 1 ? Uint8Array.from([71]) : '';
  peer.send(bodyFrame(LinkKind.REQUEST, body, { stream: 1, codec, ...(codec === 3 && { original: 0 }) }));
  await Promise.race([peer.closed, new Promise((resolve) => setTimeout(resolve, 200))]);
  return peer;
}

async function answersWithoutKey(scene: Scene): Promise<readonly string[]> {
  const problems: string[] = [];
  const before = (await scene.server.call('counts')).handlerRuns;
  const offers: [string, readonly string[], number, object][] = [
    ['NONE', ['NONE'], 0, {}],
    ['NONE beside M2M', ['M2M', 'NONE'], 0, {}],
    ['an empty body beside M2M', ['M2M'], 0, {}],
    ['TOKEN_NATIVE', ['TOKEN_NATIVE'], 1, {}],
    ['CONTEXT', ['M2M'], 4, { context: '{"max_bytes":1000,"max_messages":1}' }],
  ];
  for (const [name, algorithms, codec, extensions] of offers) {
    const peer = await unprotected(scene, algorithms, codec, extensions);
    const answered = (peer?.kinds.get(LinkKind.RESPONSE) ?? 0) + (peer?.kinds.get(LinkKind.CHUNK) ?? 0);
    if (answered > 0) problems.push(`an unprotected request was answered: ${name}`);
    peer?.cut();
  }
  // The neighbour sends no requests to this server.
  const runs = (await scene.server.call('counts')).handlerRuns - before;
  if (runs > 0) problems.push(`the handler ran ${runs} times for unprotected requests`);
  return problems;
}

export const HANDSHAKE: readonly Attack[] = [
  {
    category: 'handshake',
    name: 'HELLO of 12,000 keys',
    run: (scene) => sayFirst(scene, control('HELLO', { ...HELLO_BASE, ...keys(6_000), x: keys(2_000) })),
  },
  {
    category: 'handshake',
    name: 'HELLO of 12,000 keys in JSON',
    run: (scene) =>
      sayFirst(
        scene,
        JSON.stringify({
          type: 'HELLO',
          session_id: null,
          timestamp: 1,
          payload: { ...HELLO_BASE, extensions: keys(6_000) },
        }),
        Subprotocol.JSON,
      ),
  },
  {
    category: 'handshake',
    name: 'HELLO of long lists',
    run: (scene) =>
      sayFirst(
        scene,
        control('HELLO', { ...HELLO_BASE, algorithms: Array.from({ length: 9_000 }, () => 'x') }),
      ),
  },
  {
    category: 'handshake',
    name: 'HELLO nested deep',
    run: (scene) => sayFirst(scene, control('HELLO', { ...HELLO_BASE, x: nested(500) })),
  },
  {
    category: 'handshake',
    name: 'HELLO of 16 MiB',
    run: (scene) => sayFirst(scene, control('HELLO', { ...HELLO_BASE, x: ' '.repeat(15 * MIB) })),
  },
  {
    category: 'handshake',
    name: 'windows and limits of 1',
    seconds: 4,
    async run(scene) {
      const link = JSON.stringify({ max_streams: 1, message_window: 1, stream_window: 1, max_transfer: 1 });
      const peers: Peer[] = [];
      for (const extensions of [{ link }, { link, context: '{"max_bytes":0,"max_messages":0}' }]) {
        peers.push(await scene.open({ offer: { extensions, maxPayloadSize: 1 } }));
      }
      for (const peer of peers) {
        scene.ask(peer, { body: Buffer.from('hello'), parts: {} }, 100);
        for (let i = 0; i < 50; i++) peer.message('hello');
      }
      return undefined;
    },
  },
  {
    category: 'handshake',
    name: 'without the key that is demanded',
    server: 'security',
    boundsTime: false,
    seconds: 2,
    run: answersWithoutKey,
  },
];
