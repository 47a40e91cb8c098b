import { LinkKind, Subprotocol } from '@parlance/protocol';
import type { Attack } from './attack.js';
import type { OpenOptions, Scene } from './scene.js';
import { bodyFrame, control, helloJson, LINK, type Peer, signalFrame, varint } from './wire.js';

/** Floods of valid frames, from one session. */

const keys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [i.toString(36), 0]));

/** Opens a session, and sends the same frame as often as the server reads it. */
const repeated =
  (frame: (peer: Peer, i: number) => Uint8Array | string, perSecond?: number, options?: OpenOptions) =>
  async (scene: Scene): Promise<undefined> => {
    const peer = await scene.open(options);
    await scene.flood((i) => {
      peer.send(frame(peer, i));
      return peer;
    }, perSecond);
    return undefined;
  };

/** A frame that takes a while to make, sent at a fixed rate. */
function prepared(make: () => Uint8Array, perSecond: number): Pick<Attack, 'prepare' | 'run'> {
  let frame: Uint8Array;
  return {
    prepare() {
      frame = make();
    },
    run: (scene) => repeated(() => frame, perSecond)(scene),
  };
}

/** The same in `m2m.v1.json`. */
function preparedJson(make: () => string, perSecond: number): Pick<Attack, 'prepare' | 'run'> {
  let text: string;
  return {
    prepare() {
      text = make();
    },
    async run(scene) {
      const peer = await openJson(scene, 'echo');
      await scene.flood(() => {
        peer.send(text);
        return peer;
      }, perSecond);
      return undefined;
    },
  };
}

async function openJson(scene: Scene, as: string): Promise<Peer> {
  const peer = scene.connect(0, Subprotocol.JSON);
  await peer.opened();
  const answered = new Promise<void>((resolve) => {
    peer.onMessage = () => resolve();
  });
  peer.send(helloJson({}, scene.token(as)));
  await Promise.race([answered, peer.closed]);
  return peer;
}

const json = (type: string, payload: object) =>
  JSON.stringify({ type, session_id: null, timestamp: 1_700_000_000_000, payload });

/** Frames of WebSocket itself, which no subprotocol sees. */
async function webSocketFrames(
  scene: Scene,
  write: (socket: import('ws').WebSocket) => number,
): Promise<undefined> {
  const peer = await scene.open();
  await scene.flood(() => {
    scene.sentBytes += write(peer.socket);
    return peer;
  });
  return undefined;
}

const AS_AGENT: OpenOptions = {
  agentId: 'someone',
  offer: { extensions: { link: LINK, resume: '{}', agents: '{}' } },
};
const ACK = signalFrame(LinkKind.ACK, 0);
const SMALL_PING = control('PING');
const CANCEL_FIRST = signalFrame(LinkKind.CANCEL, 1);
const credit = (i: number) => signalFrame(LinkKind.CREDIT, 0, Uint8Array.from(varint(4_194_304 + i)));

export const FRAMES: readonly Attack[] = [
  {
    category: 'frames',
    name: 'PING of 8 MB in JSON',
    ...preparedJson(() => json('PING', { x: 'y'.repeat(8_000_000) }), 1),
  },
  {
    category: 'frames',
    name: 'PING of 8 MB of keys in JSON',
    ...preparedJson(() => json('PING', keys(700_000)), 1),
  },
  { category: 'frames', name: 'PING of 12,000 keys', ...prepared(() => control('PING', keys(12_000)), 80) },
  {
    category: 'frames',
    name: 'PING of 12,000 keys in JSON',
    ...preparedJson(() => json('PING', keys(7_000)), 80),
  },
  { category: 'frames', name: 'acknowledgements', run: repeated(() => ACK) },
  { category: 'frames', name: 'small PINGs', run: repeated(() => SMALL_PING) },
  { category: 'frames', name: 'statements of credit', run: repeated((_, i) => credit(i)) },
  {
    category: 'frames',
    name: 'names of agents',
    run: repeated((_, i) => signalFrame(LinkKind.ALIAS, i % 256, `agent-${i}`), undefined, AS_AGENT),
  },
  {
    category: 'frames',
    name: 'requests cancelled at once',
    run: repeated((_, i) => {
      const stream = 1 + 2 * Math.floor(i / 2);
      return i % 2 === 0
        ? bodyFrame(LinkKind.REQUEST, 'x', { stream })
        : signalFrame(LinkKind.CANCEL, stream);
    }),
  },
  {
    category: 'frames',
    name: 'frames for streams that are over',
    async run(scene) {
      const peer = await scene.open({ as: 'drop' });
      peer.request('x');
      await new Promise((resolve) => setTimeout(resolve, 100));
      await scene.flood(() => {
        peer.send(CANCEL_FIRST);
        return peer;
      });
      return undefined;
    },
  },
  {
    category: 'frames',
    name: 'credentials again and again',
    run: repeated(() => control('AUTH', { token: 'echo.x' })),
  },
  {
    category: 'frames',
    name: 'WebSocket pongs',
    run: (scene) =>
      webSocketFrames(scene, (socket) => {
        socket.pong();
        return 6;
      }),
  },
  {
    category: 'frames',
    name: 'WebSocket pings, answers unread',
    run: (scene) =>
      webSocketFrames(scene, (socket) => {
        socket.pause();
        socket.ping('x'.repeat(120));
        return 126;
      }),
  },
  {
    category: 'frames',
    name: 'empty WebSocket fragments',
    run: (scene) =>
      webSocketFrames(scene, (socket) => {
        for (let i = 0; i < 1_000; i++) socket.send('', { fin: false, binary: true });
        socket.send(ACK, { binary: true });
        return 6_008;
      }),
  },
  {
    category: 'frames',
    name: 'a scan that quotes half a character',
    server: 'scan',
    boundsTime: false,
    seconds: 2,
    async run(scene) {
      const peer = await openJson(scene, 'echo');
      const content = `!${'x'.repeat(126)}${'😀'.repeat(20)}`;
      peer.send(json('DATA', { algorithm: 'NONE', content, original_size: Buffer.byteLength(content) }));
      await Promise.race([peer.closed, new Promise((resolve) => setTimeout(resolve, 1_000))]);
      return undefined;
    },
  },
];
