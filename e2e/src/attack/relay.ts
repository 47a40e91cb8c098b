import { connect, type Session } from '@parlance/client';
import { LinkKind } from '@parlance/protocol';
import WebSocket from 'ws';
import type { Attack } from './attack.js';
import { blanks } from './bombs.js';
import type { Scene } from './scene.js';
import { bodyFrame, LINK, type Offer, type Peer, signalFrame } from './wire.js';

/** Agents of one principal that harm others by what they send each other. */

const AGENTS = { link: LINK, resume: '{}', agents: '{}' };
const READS_NOTHING = {
  link: JSON.stringify({ max_streams: 128, message_window: 1, stream_window: 1 }),
  resume: '{}',
  agents: '{}',
};
const TOKEN_ONLY: Offer = { algorithms: ['TOKEN'], extensions: AGENTS };

const agent = (
  scene: Scene,
  agentId: string | undefined,
  offer: Offer = { extensions: AGENTS },
  as = 'echo',
) => scene.open({ as, offer, ...(agentId !== undefined && { agentId }) });

/** Assigns the number 0 to `name`. */
function address(peer: Peer, name: string): void {
  peer.send(signalFrame(LinkKind.ALIAS, 0, name));
}

const settle = (ms = 300) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Delivery reports for a sender without a codec for them. */
async function undeliverable(scene: Scene): Promise<undefined> {
  for (const [to, id] of [
    ['absent', 'a'],
    ['@directory', 'b'],
    ['absent', undefined],
  ] as const) {
    const peer = await agent(scene, id, TOKEN_ONLY);
    address(peer, to);
    peer.message('{"a":1}', { codec: 6, to: 0, original: 7 });
    await settle();
    peer.cut();
  }
  const [sender, target] = [await agent(scene, 'c', TOKEN_ONLY), await agent(scene, 'd', TOKEN_ONLY)];
  address(sender, 'd');
  target.stall();
  for (let i = 0; i < 20; i++) sender.message('{"a":1}', { codec: 6, to: 0, original: 7 });
  await settle();
  target.socket.close(4400);
  await settle();
  return undefined;
}

/** The same with the official client. */
async function officialTokens(scene: Scene): Promise<undefined> {
  class Attacker extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { localAddress: scene.address() });
    }
  }
  let session: Session | undefined;
  try {
    session = await connect(scene.url, {
      token: scene.token('echo'),
      WebSocket: Attacker as never,
      algorithms: ['TOKEN'],
      extensions: { context: false },
      agent: {},
    });
    await session.send('{"a":1}', { algorithm: 'TOKEN', to: 'absent' });
    scene.sentBytes += 1_000;
  } catch {
    // A refusal is as good as a report.
  }
  await settle();
  void session?.close();
  return undefined;
}

/** Bodies that must be recoded for a receiver that does not read. */
const recoded =
  (kind: 'message' | 'request') =>
  async (scene: Scene): Promise<undefined> => {
    const target = await agent(scene, 'target', { algorithms: ['NONE'], extensions: READS_NOTHING });
    target.stall();
    const sender = await agent(scene, 'sender');
    address(sender, 'target');
    const { body, parts } = blanks();
    const count = kind === 'message' ? 300 : 128;
    for (let i = 0; i < count && sender.isOpen; i++) {
      scene.floors++;
      if (kind === 'message') sender.message(body, { ...parts, to: 0 });
      else sender.request(body, { ...parts, to: 0 });
    }
    return undefined;
  };

/** Reply parts that are recoded for the requester and count towards no rate. */
async function recodedParts(scene: Scene): Promise<undefined> {
  const answering = await agent(scene, 'answering');
  const asking = await agent(scene, 'asking', { algorithms: ['NONE'], extensions: READS_NOTHING });
  address(asking, 'answering');
  asking.request('x', { to: 0 });
  await settle();
  asking.stall();
  const { body, parts } = blanks();
  for (let i = 0; i < 400 && answering.isOpen; i++) {
    scene.floors++;
    // The server opens even streams.
    answering.send(chunk(body, parts));
  }
  return undefined;
}

const chunk = (body: Uint8Array, parts: object) => bodyFrame(LinkKind.CHUNK, body, { ...parts, stream: 2 });

/** Many watch the directory while one agent comes and goes. */
async function watchers(scene: Scene): Promise<undefined> {
  const metadata = JSON.stringify({ metadata: { x: 'y'.repeat(4_000) } });
  const peers = await scene.openMany(10, { offer: { extensions: { ...AGENTS, agents: metadata } } });
  for (const peer of peers) {
    address(peer, '@directory');
    for (let i = 0; i < 128 && peer.isOpen; i++) peer.request('{"watch":true}', { to: 0 });
  }
  let flapping = await agent(scene, 'flapping', { extensions: { ...AGENTS, agents: metadata } });
  const { sessionId = '', payload } = flapping.accepted ?? {};
  let token = payload?.resume?.token ?? '';
  const offer = { extensions: { ...AGENTS, agents: metadata }, agentId: 'flapping' };
  for (let attempt = 1; !scene.isOver && attempt < 5_000; attempt++) {
    const next = scene.connect();
    const resume = { sessionId, token, received: 0, attempt };
    if (await next.greet({ ...offer, resume }, scene.token('echo'))) {
      token = next.accepted?.payload.resume?.token ?? token;
    } else await settle(5);
    flapping.cut();
    flapping = next;
  }
  return undefined;
}

/** Long lists of agents, which are never read. */
async function unreadLists(scene: Scene): Promise<undefined> {
  const extensions = { ...AGENTS, agents: JSON.stringify({ metadata: { x: 'y'.repeat(4_000) } }) };
  const count = scene.isShort ? 20 : 80;
  for (let i = 0; i < count && !scene.isOver; i++) await agent(scene, `listed-${i}`, { extensions });
  const peer = await agent(scene, 'asking', { extensions: READS_NOTHING });
  address(peer, '@directory');
  for (let i = 0; i < 128 && peer.isOpen; i++) {
    scene.floors++;
    peer.request('{"watch":false}', { to: 0 });
  }
  return undefined;
}

/** An agent ID that another principal uses too: it must be neither taken away nor revealed. */
async function squatting(scene: Scene): Promise<readonly string[]> {
  const squatter = await scene.open({ offer: { extensions: AGENTS }, principal: 1, agentId: 'worker-9' });
  const owner = await scene
    .open({ offer: { extensions: AGENTS }, principal: 0, agentId: 'worker-9' })
    .catch((error: Error) => error.message);
  if (typeof owner === 'string') return [`an ID of one principal blocked another principal: ${owner}`];
  address(owner, 'worker-9');
  owner.message('for myself', { to: 0 });
  await settle();
  const got = squatter.kinds.get(LinkKind.MESSAGE) ?? 0;
  return got > 0 ? ['a message to an own agent reached another principal'] : [];
}

export const RELAY: readonly Attack[] = [
  { category: 'relay', name: 'reports that no codec carries', seconds: 3, run: undeliverable },
  { category: 'relay', name: 'the same of the official client', seconds: 2, run: officialTokens },
  {
    category: 'relay',
    name: 'the same where protection is demanded',
    server: 'security',
    seconds: 2,
    async run(scene) {
      const peer = await agent(scene, 'a', { algorithms: ['NONE'], extensions: AGENTS }).catch(
        () => undefined,
      );
      if (peer === undefined) return undefined;
      address(peer, 'absent');
      peer.message('x', { to: 0 });
      await settle();
      return undefined;
    },
  },
  { category: 'relay', name: 'messages that are recoded', sessions: 2, seconds: 5, run: recoded('message') },
  { category: 'relay', name: 'requests that are recoded', sessions: 2, seconds: 5, run: recoded('request') },
  { category: 'relay', name: 'parts that are recoded', sessions: 2, seconds: 5, run: recodedParts },
  { category: 'relay', name: 'watchers of one that flaps', sessions: 11, run: watchers },
  { category: 'relay', name: 'lists of agents, unread', sessions: 81, seconds: 6, run: unreadLists },
  { category: 'relay', name: 'the ID of another principal', boundsTime: false, seconds: 2, run: squatting },
];
