import { randomBytes } from 'node:crypto';
import { setTimeout as settle } from 'node:timers/promises';
import { decodeLinkFrame, LinkKind } from '@parlance/protocol';
import type { Attack } from './attack.js';
import type { OpenOptions, Scene } from './scene.js';
import { LINK, msgpack, type Peer, signalFrame } from './wire.js';

/** Requests about kept replies, and replies that are kept, as many as one principal can have. */

/** The address of the server's keeper of replies. */
const REPLIES = '@replies';
const EXTENSIONS = { link: LINK, resume: '{}', replies: '{}' };
const READS_NOTHING = {
  ...EXTENSIONS,
  link: JSON.stringify({ max_streams: 128, message_window: 1, stream_window: 1 }),
};

async function open(scene: Scene, options: OpenOptions = {}): Promise<Peer> {
  const peer = await scene.open({ offer: { extensions: EXTENSIONS }, ...options });
  peer.send(signalFrame(LinkKind.ALIAS, 0, REPLIES));
  return peer;
}

const openMany = (scene: Scene, count: number, options: OpenOptions = {}): Promise<Peer[]> =>
  Promise.all(Array.from({ length: count }, () => open(scene, options)));

function askKeeper(peer: Peer, metadata: object): void {
  peer.request('', { to: 0, meta: msgpack(metadata) });
}

/** Requests in turn over sessions, each of which has as many as it may have open. */
async function askInTurn(
  scene: Scene,
  peers: readonly Peer[],
  ask: (peer: Peer, i: number) => void,
): Promise<void> {
  const asked = new Map<Peer, number>();
  const isFree = (peer: Peer) => peer.isOpen && (asked.get(peer) ?? 0) - answered(peer) < MAX_OPEN;
  await scene.flood((i) => {
    const peer = [...peers.slice(i % peers.length), ...peers].find(isFree);
    if (peer !== undefined) {
      scene.floors++;
      asked.set(peer, (asked.get(peer) ?? 0) + 1);
      ask(peer, i);
    }
    return peers.find((each) => each.isOpen);
  }, RATE);
}

/** Requests of a session that are over. */
function answered({ kinds }: Peer): number {
  return OVER.reduce((sum, kind) => sum + (kinds.get(kind) ?? 0), 0);
}

/** Requests in a second, more than the sessions may send in the long run. */
const RATE = 2_000;
const MAX_OPEN = 120;
const OVER = [LinkKind.RESPONSE, LinkKind.END, LinkKind.ERROR];

/** Replies that are kept, each as large as the server's bounds let it be. */
async function keepMany(scene: Scene): Promise<undefined> {
  const peers = await openMany(scene, 10, { as: 'keep' });
  await askInTurn(scene, peers, (peer) => peer.request('x'));
  return undefined;
}

/** Follows, stops and lists of one's own replies. */
async function askAll(scene: Scene): Promise<undefined> {
  const peers = await openMany(scene, 10, { as: 'keep' });
  for (const peer of peers) for (let i = 0; i < 5; i++) peer.request('x');
  await settle(scene.isShort ? 50 : 500);
  const kinds = [
    { follow: { name: 'kept' } },
    { stop: { name: 'kept' } },
    { list: {} },
    { follow: { name: 'kept', after: 2 } },
  ];
  await askInTurn(scene, peers, (peer, i) => askKeeper(peer, kinds[i % kinds.length] as object));
  return undefined;
}

/** Lists while others share 10,000 replies, and the application takes its time to say who may follow one. */
async function listMany(scene: Scene): Promise<undefined> {
  const owners = scene.isShort ? 1 : 10;
  for (let principal = 1; principal <= owners; principal++) {
    const owner = await open(scene, { as: 'share', principal });
    for (let i = 0; i < 950 && !scene.isOver; i++) {
      owner.request('');
      while (owner.isOpen && i - answered(owner) > MAX_OPEN / 2) await settle(2);
    }
  }
  const peers = await openMany(scene, 10);
  await askInTurn(scene, peers, (peer) => askKeeper(peer, { list: {} }));
  return undefined;
}

/** Followers of long replies that never read. */
async function followUnread(scene: Scene): Promise<undefined> {
  const owner = await open(scene, { as: 'keep' });
  for (let i = 0; i < 5; i++) owner.request('x');
  await settle(scene.isShort ? 50 : 500);
  const peer = await open(scene, { as: 'keep', offer: { extensions: READS_NOTHING } });
  for (let i = 0; i < 100; i++) {
    scene.floors++;
    askKeeper(peer, { follow: { name: 'kept' } });
  }
  await settle(50);
  peer.stall();
  return undefined;
}

/** IDs and names of no reply, and malformed requests. */
async function guess(scene: Scene): Promise<readonly string[]> {
  const [owner, peers] = [await open(scene, { as: 'share', principal: 1 }), await openMany(scene, 5)];
  owner.request('');
  // Apart from errors, only empty lists come back.
  let shown = 0;
  for (const peer of peers) {
    peer.onMessage = (data, isBinary) => {
      if (!isBinary || ((data[0] as number) & 0xf0) !== 0x10) return;
      // An empty list has four bytes of frame and one of a token, or two of JSON.
      if (decodeLinkFrame(data).kind === LinkKind.CHUNK && data.length > 8) shown++;
    };
  }
  const odd = [
    null,
    [],
    'x',
    { id: [] },
    { name: {} },
    { name: '\u{10ffff}'.repeat(2_000) },
    { id: 'reply_', after: -1 },
  ];
  await askInTurn(scene, peers, (peer, i) => {
    const text = randomBytes(17).toString('base64url').slice(0, 22);
    const targets = [{ id: `reply_${text}` }, { name: text }, odd[i % odd.length]];
    askKeeper(peer, { [['follow', 'stop', 'list', text][i % 4] as string]: targets[i % 3] });
  });
  return shown > 0 ? [`${shown} parts of replies of another principal were shown`] : [];
}

export const REPLY_ATTACKS: readonly Attack[] = [
  {
    category: 'replies',
    name: 'replies that are kept, as many as can be',
    server: 'replies',
    sessions: 10,
    run: keepMany,
  },
  { category: 'replies', name: 'follows, stops and lists', server: 'replies', sessions: 10, run: askAll },
  {
    category: 'replies',
    name: 'lists of 9,500 replies of others',
    server: 'replies',
    sessions: 20,
    principals: 11,
    run: listMany,
  },
  {
    category: 'replies',
    name: '100 followers that never read',
    server: 'replies',
    sessions: 2,
    seconds: 5,
    run: followUnread,
  },
  { category: 'replies', name: 'IDs and names at random', server: 'replies', sessions: 6, run: guess },
];
