import { setTimeout as delay } from 'node:timers/promises';
import { Algorithm } from '@parlance/protocol';
import type { Scene } from '../scene.js';
import { LINK, type Peer } from '../wire.js';
import { RogueNode, type RogueWire } from './rogue-node.js';

export const AGENTS = { link: LINK, resume: '{}', agents: '{}' };

export const settled = async (wire: RogueWire, ms = 100) => {
  for (let i = 0; i < ms / 5 && wire.isOpen; i++) await delay(5);
};

interface Introduced {
  /** Number of the sender. */
  readonly from: number;
  readonly sessionId: string;
  readonly principal: string;
  readonly agentId: string;
}

export const agentOf = (peer: Peer, scene: Scene, behaviour = 'echo', agentId = 'victim') => ({
  sessionId: peer.accepted?.sessionId ?? '',
  principal: scene.token(behaviour),
  agentId,
});

/** A session that would have begun at a node. */
export const sessionOf = (name: string, i = 0) => `sess_${name}${String(i).padStart(14, '0')}`;

export function begin(relay: RogueWire, { from, sessionId, principal, agentId }: Introduced): void {
  relay.tell('open', [from, sessionId, principal, agentId, Object.values(Algorithm), null]);
}

/** Connections on which one sender may write to a session. */
export async function openWays(
  scene: Scene,
  target: Peer,
  count: number,
  nodes: 'one' | 'many' = 'one',
): Promise<RogueWire[]> {
  const ways: RogueWire[] = [];
  const one = await RogueNode.join(scene);
  for (let i = 0; i < count && !scene.isOver; i++) {
    const node = nodes === 'one' ? one : await one.another();
    const relay = await node.dial('link');
    if (typeof relay === 'number') continue;
    const sessionId = sessionOf(node.name);
    begin(relay, { from: 1, sessionId, principal: scene.token('echo'), agentId: 'rogue' });
    relay.tell('use', [1, target.accepted?.sessionId]);
    ways.push(relay);
  }
  return ways;
}
