import { setTimeout as delay } from 'node:timers/promises';
import { decodeLinkFrame, LinkKind } from '@parlance/protocol';
import type { Attack } from './attack.js';
import {
  BOUNDARY,
  type Bomb,
  dashes,
  longName,
  MIB,
  manyFields,
  manyFiles,
  manyPairs,
  nearlyEnded,
} from './bombs.js';
import type { OpenOptions, Scene } from './scene.js';
import { bodyFrame, msgpack, type Peer, signalFrame } from './wire.js';

/** Forms, and bodies of requests that are streamed: to handlers of the application, and through the gateway. */

const FORM = `multipart/form-data; boundary=${BOUNDARY}`;
const PAIRS = 'application/x-www-form-urlencoded';
const FIELD = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="a"\r\n\r\n`;
const TRANSCRIPTIONS = '/v1/audio/transcriptions';
/** The uploads that a session may have open. */
const MOST = 100;

const headOf = (path: string, type: string, more: object = {}) =>
  msgpack({ http: { path, headers: { 'content-type': type, ...more } } });

/** The head of a request for whose body the server asks. */
const uploadHead = (path: string, type: string, more: object = {}) =>
  msgpack({ http: { upload: { id: 1, path }, headers: { 'content-type': type, ...more } } });

/** Whole forms at a fixed rate. */
const asking = (
  bomb: () => Bomb,
  path: string,
  type: string,
  perSecond: number,
): Pick<Attack, 'prepare' | 'run'> => ({
  prepare: bomb,
  async run(scene) {
    const { body, parts } = bomb();
    const peer = await scene.open({ as: path === TRANSCRIPTIONS ? 'gateway' : 'fetch' });
    const head = { ...parts, meta: headOf(path, type) };
    do scene.floors++;
    while (
      (await peer.deliver(body, head, 60_000, () => scene.isOver)) &&
      (await delay(1_000 / perSecond, true))
    );
    return undefined;
  },
});

/** A body that the server has asked for. */
class Body {
  readonly #peer: Peer;
  readonly #stream: number;
  #spent = 0;

  constructor(peer: Peer, stream: number) {
    this.#peer = peer;
    this.#stream = stream;
  }

  /** @returns whether there was credit for it. */
  write(piece: Uint8Array | string): boolean {
    const frame = bodyFrame(LinkKind.CHUNK, piece, { stream: this.#stream });
    // At least what the server charges for it.
    const charge = frame.length + 64;
    if (this.#spent + charge > this.#peer.creditOf(this.#stream)) return false;
    this.#spent += charge;
    return this.#peer.send(frame);
  }

  /** The beginning of a piece of so many bytes, of which the rest never comes. */
  begin(total: number): void {
    this.#peer.send(bodyFrame(LinkKind.CHUNK, 'x', { stream: this.#stream, total }));
  }
}

/** Answers each request of the server for a body with `onBody`. */
function offer(peer: Peer, onBody: (body: Body) => void): void {
  const asked = new Set<number>();
  peer.onMessage = (data, isBinary) => {
    if (!isBinary || ((data[0] as number) & 0xf0) !== 0x10) return;
    const { kind, streamId } = decodeLinkFrame(data);
    if (kind === LinkKind.CANCEL) peer.send(signalFrame(LinkKind.END, streamId));
    if (kind !== LinkKind.REQUEST || asked.has(streamId)) return;
    asked.add(streamId);
    onBody(new Body(peer, streamId));
  };
}

interface Streaming {
  readonly path: string;
  readonly type?: string;
  readonly headers?: object;
  readonly sessions?: number;
  /** Requests of each session that are open at a time. */
  readonly open?: number;
  /** Beginning of each body. */
  readonly head?: string;
  readonly piece: Uint8Array | string;
  /** Pieces in a second, of all bodies together. */
  readonly perSecond?: number;
}

/** Streams bodies without an end, again and again. @returns requests that were answered. */
async function stream(scene: Scene, options: Streaming): Promise<number> {
  const { path, type = FORM, headers, sessions = 1, open = MOST, head = '', piece, perSecond } = options;
  const session: OpenOptions = { as: path === TRANSCRIPTIONS ? 'gateway' : 'fetch' };
  const peers = await scene.openMany(sessions, session);
  const bodies: Body[] = [];
  for (const peer of peers) {
    offer(peer, (body) => {
      if (head !== '') body.write(head);
      bodies.push(body);
    });
  }
  const ask = (peer: Peer) => {
    scene.floors++;
    peer.request('', { meta: uploadHead(path, type, headers) });
  };
  for (const peer of peers) for (let i = 0; i < open; i++) ask(peer);
  const over = new Map<Peer, number>();
  await scene.flood((i) => {
    const peer = peers[i % peers.length] as Peer;
    // A request that was answered is followed by another one.
    if (overOf(peer) > (over.get(peer) ?? 0)) {
      over.set(peer, (over.get(peer) ?? 0) + 1);
      ask(peer);
    }
    bodies[i % Math.max(1, bodies.length)]?.write(piece);
    return peers.find((each) => each.isOpen);
  }, perSecond);
  return peers.reduce((sum, peer) => sum + overOf(peer), 0);
}

/** Requests of a session that were answered. */
const overOf = ({ kinds }: Peer) => (kinds.get(LinkKind.RESPONSE) ?? 0) + (kinds.get(LinkKind.END) ?? 0);

/** A body of which the server is told that it has 10 GB, in the header and in the frame. */
async function state(scene: Scene): Promise<readonly string[]> {
  const before = (await scene.server.call('counts')).forms;
  const peer = await scene.open({ as: 'fetch' });
  const headers = { 'content-length': String(10_000 * MIB) };
  peer.request(`${FIELD}x\r\n--${BOUNDARY}--\r\n`, { meta: headOf('/form', FORM, headers) });
  offer(peer, (body) => body.begin(10_000 * MIB));
  for (let i = 0; i < MOST && peer.isOpen; i++) {
    scene.floors++;
    peer.request('', { meta: uploadHead('/read', FORM, headers) });
  }
  await scene.wait();
  // The handler saw the form as it is, and not the header.
  return (await scene.server.call('counts')).forms > before ? [] : ['a stated length was believed'];
}

/** Bodies that are long, said to be short: a handler would collect them, and does not answer before their end. */
async function understate(scene: Scene): Promise<readonly string[]> {
  const answered = await stream(scene, {
    path: '/form',
    headers: { 'content-length': '1' },
    open: 4,
    head: FIELD,
    piece: PIECE,
    perSecond: 800,
  });
  return answered === 0 && !scene.isShort ? ['a body that was said to be short was collected'] : [];
}

/** Requests for whose bodies the server asks in vain. */
async function neverBegin(scene: Scene): Promise<undefined> {
  for (const peer of await scene.openMany(10, { as: 'fetch' })) {
    for (let i = 0; i < MOST; i++) {
      scene.floors++;
      peer.request('', { meta: uploadHead('/form', FORM) });
    }
  }
  return undefined;
}

/** Within the credit that a stream begins with. */
const PIECE: Uint8Array = Buffer.alloc(12 * 1024, 'x');

const streaming = (options: Streaming) => async (scene: Scene) => {
  await stream(scene, options);
  return undefined;
};

const fetching = { category: 'uploads', server: 'fetch', seconds: 5 } as const;
const passing = { category: 'uploads', server: 'gateway', seconds: 5 } as const;

export const UPLOADS: readonly Attack[] = [
  { ...fetching, name: 'forms of 130,000 fields', ...asking(manyFields, '/large', FORM, 4) },
  { ...fetching, name: 'forms of 110,000 files', isLong: true, ...asking(manyFiles, '/large', FORM, 4) },
  { ...fetching, name: 'forms of 8 million pairs', ...asking(manyPairs, '/large', PAIRS, 4) },
  { ...fetching, name: 'a name of 16 MiB', ...asking(longName, '/large', FORM, 4) },
  { ...fetching, name: 'boundaries that never end', ...asking(nearlyEnded, '/form', FORM, 4) },
  { ...fetching, name: '16 MiB of dashes', isLong: true, ...asking(dashes, '/form', FORM, 4) },
  {
    ...fetching,
    name: 'forms byte by byte',
    run: streaming({ path: '/form', head: FIELD, piece: '-', perSecond: 4_000 }),
  },
  {
    ...fetching,
    name: 'fields without an end',
    isLong: true,
    run: streaming({ path: '/form', piece: `${FIELD}\r\n`, perSecond: 4_000 }),
  },
  {
    ...fetching,
    name: 'bodies that never begin',
    isLong: true,
    goesOn: true,
    sessions: 10,
    run: neverBegin,
  },
  { ...fetching, name: 'bodies that are said to have 10 GB', run: state },
  { ...fetching, name: 'bodies that are said to have one byte', run: understate },
  {
    ...fetching,
    name: '1,000 uploads at once',
    goesOn: true,
    sessions: 10,
    run: streaming({ path: '/read', sessions: 10, piece: PIECE, perSecond: 800 }),
  },
  { ...passing, name: 'forms of 130,000 fields for a model', ...asking(manyFields, TRANSCRIPTIONS, FORM, 4) },
  {
    ...passing,
    name: 'boundaries that never end, for a model',
    isLong: true,
    ...asking(nearlyEnded, TRANSCRIPTIONS, FORM, 4),
  },
  {
    ...passing,
    name: '1,000 forms for an upstream that thinks',
    goesOn: true,
    sessions: 10,
    run: streaming({ path: TRANSCRIPTIONS, sessions: 10, head: FIELD, piece: PIECE, perSecond: 800 }),
  },
  {
    ...passing,
    name: 'forms for a model, byte by byte',
    isLong: true,
    run: streaming({ path: TRANSCRIPTIONS, head: FIELD, piece: '-', perSecond: 4_000 }),
  },
];
