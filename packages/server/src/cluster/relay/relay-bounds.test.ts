import { DEFAULT_LIMITS } from '@parlance/protocol';
import { MemoryBudget, SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { readAgentState } from '../../agents/move-state.js';
import { MAX_UNKNOWN_TICKS } from './relay-link.js';
import { encodeRelayMessage } from './relay-message.js';
import { RelayPeers } from './relay-peers.js';
import { openNodesMemory, RELAY_QUOTA, RelayQuota } from './relay-quota.js';
import { MAX_SILENT_TICKS, RelayTraffic, RelayWire } from './relay-wire.js';

describe('what one node has under way', () => {
  it('is bounded by messages, bytes and requests, and has room again', () => {
    const quota = new RelayQuota({ messages: 2, bytes: 100, requests: 2 });
    expect([quota.tryHoldMessage(10), quota.tryHoldMessage(10), quota.tryHoldMessage(10)]).toEqual([
      true,
      true,
      false,
    ]);
    quota.releaseMessage(10);
    expect(quota.tryHoldMessage(90)).toBe(true);
    expect(quota.tryHold(1, 1)).toBe(false);
    quota.releaseMessage(90);
    expect([quota.tryHold(1, 45), quota.tryHold(2, 45), quota.tryHold(3, 0)]).toEqual([true, true, false]);
    quota.release(1, 20);
    quota.forget(2);
    expect(quota.tryHold(3, 65)).toBe(true);
    expect(quota.tryHold(4, 1)).toBe(false);
  });
});

it('what all nodes have under way shares a part of the memory of the process', () => {
  const MIB = 1024 * 1024;
  const budget = new MemoryBudget(400 * MIB);
  const [first, second] = [0, 1].map(() => new RelayQuota(RELAY_QUOTA, openNodesMemory(budget))) as [
    RelayQuota,
    RelayQuota,
  ];
  const fill = (quota: RelayQuota, ref: number) => {
    for (let i = 0; ; i++) if (!quota.tryHold(ref + i, MIB)) return i;
  };
  const taken = [fill(first, 0), fill(second, 10_000)] as const;
  // A quarter, and a little that each connection has in any case.
  expect(taken[0]).toBeGreaterThan(90);
  expect(taken[0] + taken[1]).toBeLessThan(110);
  first.close();
  expect(fill(second, 20_000)).toBeGreaterThan(80);
  second.close();
  expect(budget.used).toBe(0);
});

describe('a connection between nodes', () => {
  const open = () => {
    const sent: unknown[] = [];
    const wire = new RelayWire(new RelayTraffic());
    wire.open({ send: (data) => void sent.push(data), terminate: () => {} });
    return { wire, sent };
  };

  it('is over when the other node has said nothing for too long, and not before', () => {
    const { wire } = open();
    const ticks = Array.from({ length: MAX_SILENT_TICKS + 1 }, () => wire.handleTick());
    expect(ticks).toEqual([...Array.from({ length: MAX_SILENT_TICKS }, () => true), false]);
  });

  it('stays as long as anything comes, and says that this node is there only when it says nothing else', () => {
    const { wire, sent } = open();
    for (let i = 0; i < 3 * MAX_SILENT_TICKS; i++) {
      wire.read(encodeRelayMessage('ping', []));
      expect(wire.handleTick()).toBe(true);
    }
    expect(sent.length).toBe(3 * MAX_SILENT_TICKS);
    wire.send('confirmed', ['sess', 1]);
    wire.handleTick();
    expect(sent.length).toBe(3 * MAX_SILENT_TICKS + 1);
  });
});

describe('a connection to a node that is no member, as far as this one knows', () => {
  const open = (isMember: boolean) => {
    const state = { isMember };
    const nothing = () => {};
    const relay = { messages: { handleTick: nothing }, requests: { handleLost: nothing } };
    const peers = new RelayPeers({
      incarnation: 'here',
      options: { limits: DEFAULT_LIMITS, logger: SILENT_LOGGER, security: undefined },
      memory: new MemoryBudget(Infinity),
      directory: {} as never,
      relay: relay as never,
      findSession: () => undefined,
      isNodeAlive: () => state.isMember,
      connect: nothing,
    });
    const agent = { sessionId: 'sess_a', principal: 'p', agentId: 'a', negotiated: {} as never };
    const transfer = { totalLength: 4, first: Uint8Array.of(1), onWritten: nothing };
    peers.targetOf('there', agent).perform(({ channel }) => channel.transfer(transfer as never), {} as never);
    return { peers, state };
  };

  it('stays for a while if the node was found in the engine just now', () => {
    const { peers } = open(false);
    for (let i = 0; i < MAX_UNKNOWN_TICKS; i++) peers.handleTick();
    expect(peers.size).toBe(1);
    peers.handleTick();
    expect(peers.size).toBe(0);
  });

  it('ends if the node was one before', () => {
    const { peers, state } = open(false);
    state.isMember = true;
    peers.handleTick();
    expect(peers.size).toBe(1);
    state.isMember = false;
    peers.handleTick();
    expect(peers.size).toBe(0);
  });
});

describe('the state of an agent that moves', () => {
  const counter = { counts: [], hasForgotten: false, last: 0 };
  const good = { frames: [], pending: [], counter, heard: [] };

  it('is read as it was written', () => {
    const state = { ...good, frames: [3], heard: [['sess_a', 4]], pending: [['a', null, 2]] };
    expect(readAgentState(JSON.stringify(state))).toEqual({
      ...state,
      pending: [['a', undefined, 2]],
      stated: undefined,
      watch: undefined,
    });
  });

  it.each([
    '',
    '[]',
    '{}',
    JSON.stringify({ ...good, frames: [-1] }),
    JSON.stringify({ ...good, frames: 1 }),
    JSON.stringify({ ...good, pending: [['a', 1]] }),
    JSON.stringify({ ...good, pending: [['a'.repeat(1_025), 1, 1]] }),
    JSON.stringify({ ...good, counter: { ...counter, hasForgotten: 1 } }),
    JSON.stringify({ ...good, counter: { ...counter, last: -1 } }),
    JSON.stringify({ ...good, heard: [['sess_a', 1.5]] }),
    JSON.stringify({ ...good, heard: [['a'.repeat(1_025), 1]] }),
    JSON.stringify({ ...good, watch: { stream: 'x', sent: [] } }),
    JSON.stringify({ ...good, stated: { agents: 1 } }),
    JSON.stringify({ ...good, stated: { agents: 'x'.repeat(32 * 1_024 + 1) } }),
  ])('is refused if it is malformed: %s', (text) => {
    expect(() => readAgentState(text)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });
});
