import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { BodyCodec, LinkKind } from '@parlance/protocol';
import WebSocket from 'ws';
import type { Attack } from './attack.js';
import {
  abbreviated,
  type Bomb,
  blanks,
  brotliOf,
  checksum,
  compressedTensor,
  context,
  LARGEST,
  MIB,
  m2m,
  plainTensor,
  tensorWithExtra,
} from './bombs.js';
import type { OpenOptions, Scene } from './scene.js';
import { bodyFrame, LINK, varint } from './wire.js';

/** Attacks with bodies that expand: in every codec, and wherever a body may wait. */

const CONTEXT = { link: LINK, resume: '{}', context: '{"max_bytes":1048576,"max_messages":8}' };

/** Sessions that repeat the same request as often as they may. */
const asked = (
  bomb: () => Bomb | Promise<Bomb>,
  options: OpenOptions,
  sessions = 1,
  count = 128,
): Pick<Attack, 'prepare' | 'run'> => ({
  prepare: bomb,
  async run(scene) {
    const made = await bomb();
    for (const peer of await scene.openMany(sessions, options)) scene.ask(peer, made, count);
    return undefined;
  },
});

/** The same with one-way messages. */
const told = (
  bomb: () => Bomb | Promise<Bomb>,
  options: OpenOptions,
  count: number,
): Pick<Attack, 'prepare' | 'run'> => ({
  prepare: bomb,
  async run(scene) {
    const { body, parts } = await bomb();
    const peer = await scene.open(options);
    for (let i = 0; i < count && peer.isOpen; i++) {
      scene.floors++;
      peer.message(body, parts);
    }
    return undefined;
  },
});

/** A message of 1 MiB that the session keeps, and then repetitions of it in a dozen bytes each. */
async function repeatsOfABase(scene: Scene): Promise<undefined> {
  const peer = await scene.open({ as: 'hold', offer: { extensions: CONTEXT } });
  const size = MIB - 64 * 1024;
  // Sent uncompressed, so that its ratio is harmless.
  const text = Buffer.alloc(size, 'Why is the sky blue? ');
  const first = Buffer.concat([Uint8Array.from([0, ...checksum(text)]), text]);
  if (!(await peer.deliver(first, { codec: BodyCodec.CONTEXT }, 60_000, () => scene.isOver)))
    return undefined;
  const again = Uint8Array.from([...varint(2 * 4), ...varint(size), 0, ...checksum(text)]);
  scene.ask(peer, { body: again, parts: { codec: BodyCodec.CONTEXT } }, 127);
  return undefined;
}

/** The official client, which follows every rule. */
async function official(scene: Scene): Promise<undefined> {
  class Attacker extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { localAddress: scene.address() });
    }
  }
  const session = await connect(scene.url, {
    token: scene.token('hold'),
    WebSocket: Attacker as never,
    algorithms: ['BROTLI'],
    extensions: { context: false },
  });
  const text = ' '.repeat(LARGEST - 1);
  for (let i = 0; i < 40; i++) {
    scene.floors++;
    scene.sentBytes += 60;
    session.request(text, { algorithm: 'BROTLI' }).catch(() => {});
  }
  await scene.wait();
  void session.close();
  return undefined;
}

/** Uncompressed tensors, charged at their full size: only their sum is large. */
async function plainTensors(scene: Scene): Promise<undefined> {
  const { body, parts } = plainTensor(4 * MIB);
  const peer = await scene.open();
  // 8 MB per second, which the byte rate allows.
  while (await peer.deliver(body, parts, 250_000, () => scene.isOver)) await delay(500);
  return undefined;
}

export const EXPANSION: readonly Attack[] = [
  {
    category: 'expansion',
    name: 'compressed tensors that wait unread',
    seconds: 5,
    ...asked(() => compressedTensor(LARGEST - 1_000), {}, 1, 64),
  },
  {
    category: 'expansion',
    name: 'the same where tensors are streamed',
    server: 'streams',
    seconds: 5,
    ...asked(() => compressedTensor(LARGEST - 1_000), { as: 'unread' }, 1, 64),
  },
  {
    category: 'expansion',
    name: 'the same of 6 sessions, then cut',
    sessions: 6,
    seconds: 5,
    prepare: () => compressedTensor(LARGEST - 1_000),
    async run(scene) {
      await asked(() => compressedTensor(LARGEST - 1_000), {}, 6, 64).run(scene);
      await delay(200);
      scene.cut();
      return undefined;
    },
  },
  {
    category: 'expansion',
    name: 'Brotli requests that are read and wait',
    seconds: 5,
    ...asked(blanks, { as: 'hold' }),
  },
  {
    category: 'expansion',
    name: 'the same, which state less than they are',
    seconds: 5,
    ...asked(() => ({ body: blanks().body, parts: { ...blanks().parts, original: 60_000 } }), { as: 'hold' }),
  },
  {
    category: 'expansion',
    name: 'Brotli requests that wait unread',
    seconds: 5,
    ...asked(blanks, { as: 'wait' }),
  },
  { category: 'expansion', name: 'M2M requests that wait', seconds: 5, ...asked(m2m, { as: 'hold' }) },
  {
    category: 'expansion',
    name: 'T1 requests that wait',
    seconds: 5,
    ...asked(abbreviated, { as: 'hold' }),
  },
  {
    category: 'expansion',
    name: 'context requests',
    seconds: 5,
    ...asked(context, { as: 'wait', offer: { extensions: CONTEXT } }),
  },
  {
    category: 'expansion',
    name: 'context requests that repeat their base',
    seconds: 5,
    run: repeatsOfABase,
  },
  {
    category: 'expansion',
    name: 'Brotli messages that are not read',
    server: 'mailbox',
    seconds: 5,
    ...told(blanks, { as: 'unread' }, 400),
  },
  {
    category: 'expansion',
    name: 'Brotli messages that are not taken',
    seconds: 5,
    ...told(blanks, {}, 400),
  },
  {
    category: 'expansion',
    name: 'context messages that are not read',
    server: 'mailbox',
    seconds: 5,
    ...told(context, { as: 'unread', offer: { extensions: CONTEXT } }, 200),
  },
  { category: 'expansion', name: 'blanks of the official client', seconds: 6, run: official },
  {
    category: 'expansion',
    name: '100 sessions of Brotli requests',
    sessions: 100,
    seconds: 8,
    ...asked(blanks, { as: 'hold' }, 100),
  },
  {
    category: 'expansion',
    name: '100 sessions of small expansions',
    sessions: 100,
    seconds: 8,
    ...asked(() => brotliOf(60 * 1024), { as: 'hold' }, 100),
  },
  {
    category: 'expansion',
    name: 'tensors that are all metadata',
    seconds: 6,
    async run(scene) {
      const { body, parts } = tensorWithExtra(1_800);
      const peer = await scene.open();
      await scene.flood((i) => {
        scene.floors++;
        peer.send(bodyFrame(LinkKind.REQUEST, body, { ...parts, stream: 1 + 2 * i }));
        return peer;
      }, 500);
      return undefined;
    },
  },
  { category: 'expansion', name: 'plain tensors that wait unread', seconds: 12, run: plainTensors },
];
