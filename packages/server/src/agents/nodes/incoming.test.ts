import { newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { decodeLinkMessage, encodeLinkMessage } from '../../cluster/link/message.js';
import { LINK_QUOTA } from '../../cluster/link/quota.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import { MAX_SOURCES } from './incoming.js';
import { AGENTS, type RelayMessageType } from './messages.js';
import { settled, World } from './testing/relay-world.js';
import { Client } from './testing/simulated-session.js';

/** A node guards itself against another one that does not keep to the rules. */

afterEach(() => vi.restoreAllMocks());

/** A way to ada, on a connection from another node. */
async function connected() {
  const world = new World();
  const node = await world.addNode();
  const other = await world.addNode();
  const session = node.join(new Client('ada'));
  await settled();
  const sent: unknown[][] = [];
  let events: TransportEvents | undefined;
  const state = { isOver: false, unread: 0, holds: 0 };
  const wire: Partial<Transport> = {
    get bufferedAmount() {
      return state.unread;
    },
    hold: () => void state.holds++,
    unhold: () => void state.holds--,
    send: (data) => {
      const { type, fields } = decodeLinkMessage(data);
      sent.push([type, ...fields]);
    },
    terminate: () => {
      state.isOver = true;
    },
    listen: (listener) => {
      events = listener;
    },
  };
  node.links.accept(wire as Transport, other.name);
  const tell = (type: RelayMessageType, fields: readonly unknown[], bytes = new Uint8Array(0)) => {
    const data = encodeLinkMessage(AGENTS, type, fields, bytes);
    events?.onMessage(data, data.length);
  };
  const open = (sessionId: string) => tell('open', [1, sessionId, 'acme', 'bob', ['NONE'], null]);
  tell('use', [7, session.id]);
  expect(sent).toEqual([['ready', 7]]);
  const drain = () => events?.onDrain();
  return { world, node, other, session, sent, state, tell, open, drain, stop: () => world.stop() };
}

const BODY = [0, 2, 0, -1];

describe('a node that speaks for a session', () => {
  it('of its own is heard', async () => {
    const { other, session, tell, open, stop } = await connected();
    open(newSessionId(other.name));
    tell('message', [1, 1, 7, 1, 0, ...BODY], Buffer.from('hi'));
    expect(session.waiting).toBe(1);
    await stop();
  });

  it('of another node is refused, and this is logged', async () => {
    const warn = vi.spyOn(SILENT_LOGGER, 'warn');
    const { node, session, sent, state, tell, open, stop } = await connected();
    const forged = newSessionId(node.name);
    open(forged);
    tell('message', [1, 1, 7, 1, 0, ...BODY], Buffer.from('hi'));
    tell('request', [1, 2, 7, ...BODY], Buffer.from('hi'));
    tell('tensor', [1, 3, 7, 2], Buffer.from('hi'));
    expect(sent.slice(1).map((message) => message.slice(0, -1))).toEqual([
      ['refused', 7, 1, 'forbidden'],
      ['reject', 2, 'forbidden'],
      ['reject', 3, 'forbidden'],
    ]);
    const events = warn.mock.calls.map(([fields]) => fields);
    expect(events).toEqual([expect.objectContaining({ event: 'peer.forged', session: forged })]);
    expect([session.waiting, state.isOver]).toEqual([0, false]);
    await stop();
  });
});

describe('each sender', () => {
  it.each(['which it may speak for', 'which it may not speak for'])(
    'of a node %s costs it memory, and one more ends the connection',
    async (which) => {
      vi.spyOn(LINK_QUOTA, 'bytes', 'get').mockReturnValue(512 + 3 * (4_096 + 14));
      const { node, other, state, tell, stop } = await connected();
      const home = which === 'which it may speak for' ? other : node;
      const open = (number: number) =>
        tell('open', [number, newSessionId(home.name), 'acme', 'bob', ['NONE'], null]);
      for (const number of [1, 2, 3]) open(number);
      tell('close', [2]);
      open(4);
      expect(state.isOver).toBe(false);
      open(5);
      expect(state.isOver).toBe(true);
      await stop();
    },
  );

  it('is one of 50,000, and one more ends the connection', async () => {
    const { node, state, tell, stop } = await connected();
    const id = newSessionId(node.name);
    const open = (number: number) => tell('open', [number, id, 'acme', 'bob', ['NONE'], null]);
    for (let number = 1; number <= MAX_SOURCES; number++) open(number);
    expect(state.isOver).toBe(false);
    open(MAX_SOURCES + 1);
    expect(state.isOver).toBe(true);
    await stop();
  });

  it.each(['other', 'node'] as const)('has a number of its own, if it is of the %s', async (home) => {
    const { state, tell, stop, ...nodes } = await connected();
    const open = () => tell('open', [1, newSessionId(nodes[home].name), 'acme', 'bob', ['NONE'], null]);
    open();
    expect(state.isOver).toBe(false);
    open();
    expect(state.isOver).toBe(true);
    await stop();
  });
});

describe('a node that speaks for an agent that is not known yet', () => {
  it('is refused as one whose sender is gone, and heard when the agent is known', async () => {
    const warn = vi.spyOn(SILENT_LOGGER, 'warn');
    const { world, session, sent, tell, open, stop } = await connected();
    const third = await world.addNode();
    // As if it had moved: the engine knows it before the node does.
    open(third.join(new Client('bob')).id);
    tell('message', [1, 1, 7, 1, 0, ...BODY], Buffer.from('hi'));
    tell('request', [1, 2, 7, ...BODY], Buffer.from('hi'));
    expect(sent.slice(1).map((message) => message.slice(0, -1))).toEqual([
      ['refused', 7, 1, 'peer_gone'],
      ['reject', 2, 'peer_gone'],
    ]);
    expect([warn.mock.calls, session.waiting]).toEqual([[], 0]);
    await settled();
    tell('message', [1, 2, 7, 2, 0, ...BODY], Buffer.from('hi'));
    expect(session.waiting).toBe(1);
    await stop();
  });
});

describe('a tensor of another node', () => {
  it('has as many bytes as it announces, and not one more', async () => {
    const { other, session, state, tell, open, stop } = await connected();
    open(newSessionId(other.name));
    tell('tensor', [1, 3, 7, 10], new Uint8Array(4));
    tell('piece', [3], new Uint8Array(6));
    expect([session.pieces, state.isOver]).toEqual([[4, 6], false]);
    tell('piece', [3], new Uint8Array(1));
    expect([session.pieces, state.isOver]).toEqual([[4, 6], true]);
    await stop();
  });

  it.each([
    ['nothing', 10, 0],
    ['more than it announces', 10, 11],
  ])('that begins with %s ends the connection', async (_, total, first) => {
    const { other, session, state, tell, open, stop } = await connected();
    open(newSessionId(other.name));
    tell('tensor', [1, 3, 7, total], new Uint8Array(first));
    expect([session.pieces, state.isOver]).toEqual([[], true]);
    await stop();
  });

  it('has no empty pieces', async () => {
    const { other, session, state, tell, open, stop } = await connected();
    open(newSessionId(other.name));
    tell('tensor', [1, 3, 7, 10], new Uint8Array(10));
    expect([session.pieces, state.isOver]).toEqual([[10], false]);
    tell('piece', [3]);
    expect(state.isOver).toBe(true);
    await stop();
  });
});

describe('a way to a session', () => {
  it('that waits is let go, and one whose number is taken ends the connection', async () => {
    const { node, session, sent, state, tell, stop } = await connected();
    node.moves.hold(session as never);
    expect(sent.at(-1)).toEqual(['hold', 7, 1]);
    expect(node.moves.isQuiet(session as never)).toBe(false);
    tell('use', [8, session.id]);
    tell('holding', [7, 2]);
    expect(node.moves.isQuiet(session as never)).toBe(false);
    tell('holding', [7, 1]);
    expect(node.moves.isQuiet(session as never)).toBe(true);
    node.moves.release(session as never);
    expect(sent.slice(2)).toEqual([
      ['ready', 7],
      ['ready', 8],
    ]);
    tell('use', [8, session.id]);
    expect(state.isOver).toBe(true);
    await stop();
  });

  it('to a session that is not known is gone', async () => {
    const { node, sent, tell, stop } = await connected();
    tell('use', [8, newSessionId(node.name)]);
    expect(sent.at(-1)).toEqual(['gone', 8, 0]);
    await stop();
  });
});

describe('another node', () => {
  it.each([
    ['a session', 0, 128],
    ['a principal', 1, 256],
    ['an agent', 2, 128],
  ])('names %s with so many characters at most', async (_what, place, most) => {
    const { other, state, tell, stop } = await connected();
    const names = (length: number) => {
      const texts = [newSessionId(other.name), 'acme', 'bob'];
      texts[place] = place === 0 ? newSessionId(other.name).padEnd(length, '0') : 'x'.repeat(length);
      return texts;
    };
    tell('open', [1, ...names(most), ['NONE'], null]);
    expect(state.isOver).toBe(false);
    tell('open', [2, ...names(most + 1), ['NONE'], null]);
    expect(state.isOver).toBe(true);
    await stop();
  });

  it('is not heard while it does not read, and ended if too much waits for it', async () => {
    const { node, sent, state, tell, drain, stop } = await connected();
    const ask = () => tell('use', [8, newSessionId(node.name)]);
    state.unread = 1024 * 1024;
    ask();
    expect(state.holds).toBe(0);
    state.unread++;
    ask();
    ask();
    expect([sent.length, state.holds]).toEqual([4, 1]);
    drain();
    expect(state.holds).toBe(1);
    state.unread = 0;
    drain();
    drain();
    expect(state.holds).toBe(0);
    state.unread = 256 * 1024 * 1024;
    ask();
    expect(state.isOver).toBe(false);
    state.unread++;
    ask();
    expect(state.isOver).toBe(true);
    await stop();
  });

  it('does not speak for a session that is here, except while it is about to move', async () => {
    const { node, session, sent, tell, stop } = await connected();
    tell('open', [1, session.id, 'acme', 'ada', ['NONE'], null]);
    tell('message', [1, 1, 7, 1, 0, ...BODY], Buffer.from('hi'));
    expect([session.waiting, sent.at(-1)?.slice(0, 4)]).toEqual([0, ['refused', 7, 1, 'forbidden']]);
    node.moves.hold(session as never);
    tell('open', [2, session.id, 'acme', 'ada', ['NONE'], null]);
    tell('message', [2, 2, 7, 2, 0, ...BODY], Buffer.from('hi'));
    expect(session.waiting).toBe(1);
    await stop();
  });
});
