import { MemoryBudget, SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import {
  Link,
  type LinkEnd,
  type LinkOptions,
  MAX_SILENT_TICKS,
  MAX_UNKNOWN_TICKS,
  Traffic,
} from './link.js';
import { Links } from './links.js';
import { decodeLinkMessage, encodeLinkMessage } from './message.js';

const SERVICE = 'words';
const PING = encodeLinkMessage('', '', []);
const word = (text: string) => encodeLinkMessage(SERVICE, text, []);

/** A link, and what its services and the other node hear. */
function linked(change: Partial<LinkOptions> = {}) {
  const sent: string[] = [];
  const heard: string[] = [];
  const state = { unwritten: 0, isOver: false };
  const overs: unknown[] = [];
  const link = new Link({
    node: 'other0',
    traffic: new Traffic(),
    onOver: (why) => void overs.push(why),
    ...change,
  });
  const wire = {
    get bufferedAmount() {
      return state.unwritten;
    },
    send: (data: Uint8Array | string) => void sent.push(decodeLinkMessage(data).type),
    terminate: () => {
      state.isOver = true;
    },
  };
  const end: LinkEnd = {
    handle: ({ type }) => void heard.push(type),
    handleEnding: () => link.send(SERVICE, 'bye', []),
    handleOver: () => void heard.push('over'),
  };
  const hear = (data: Uint8Array | string) => link.onMessage(data);
  return { link, wire, end, sent, heard, overs, state, hear };
}

describe('a link', () => {
  it('sends what was said before it was open, in order, and nothing after its end', () => {
    const { link, wire, sent, state } = linked();
    link.send(SERVICE, 'a', []);
    link.send(SERVICE, 'b', []);
    expect([link.isOpen, sent]).toEqual([false, []]);
    link.open(wire);
    link.send(SERVICE, 'c', []);
    link.end();
    link.send(SERVICE, 'd', []);
    expect([sent, state.isOver]).toEqual([['a', 'b', 'c'], true]);
  });

  it('that is over before it is open ends the connection', () => {
    const { link, wire, sent, state } = linked();
    link.send(SERVICE, 'a', []);
    link.end(new Error('gone'));
    link.open(wire);
    expect([sent, state.isOver, link.isOpen]).toEqual([[], true, false]);
  });

  it('tells each service once that it is over, and lets it say its last word only if this node ends it', () => {
    for (const [why, said] of [
      [undefined, ['bye']],
      [new Error('broken'), []],
    ] as const) {
      const { link, wire, end, sent, heard, overs } = linked();
      link.open(wire);
      link.attach(SERVICE, end);
      link.end(why);
      link.end(why);
      expect([sent, heard, overs]).toEqual([said, ['over'], [why]]);
    }
  });

  it('gives a message to its service, and is ended by one for a service that there is not', () => {
    const { link, wire, end, heard, hear, overs } = linked({
      accept: (name) => (name === SERVICE ? end : undefined),
    });
    link.open(wire);
    hear(word('a'));
    hear(word('b'));
    expect(heard).toEqual(['a', 'b']);
    hear(encodeLinkMessage('others', 'a', []));
    expect(heard).toEqual(['a', 'b', 'over']);
    expect(overs).toEqual([expect.objectContaining({ code: 'bad_message' })]);
  });

  it('that this node has opened is ended by a message of a service that it has not begun to use', () => {
    const { link, wire, hear, overs } = linked();
    link.open(wire);
    hear(word('a'));
    expect(overs).toEqual([expect.objectContaining({ code: 'bad_message' })]);
  });

  it('is over when the other node has said nothing for too long, and not before', () => {
    const { link, wire, state } = linked();
    link.open(wire);
    for (let i = 0; i < MAX_SILENT_TICKS; i++) link.handleTick(true);
    expect(state.isOver).toBe(false);
    link.handleTick(true);
    expect(state.isOver).toBe(true);
  });

  it('stays as long as anything comes, and says that this node is there only when it says nothing else', () => {
    const { link, wire, sent, hear, state } = linked();
    link.open(wire);
    for (let i = 0; i < 3 * MAX_SILENT_TICKS; i++) {
      hear(PING);
      link.handleTick(true);
    }
    expect([state.isOver, sent.length]).toEqual([false, 3 * MAX_SILENT_TICKS]);
    link.send(SERVICE, 'a', []);
    link.handleTick(true);
    expect(sent.length).toBe(3 * MAX_SILENT_TICKS + 1);
  });

  it('is ended if the other node asks for more than it reads', () => {
    const { link, wire, state } = linked();
    link.open(wire);
    state.unwritten = 256 * 1024 * 1024 + 1;
    link.send(SERVICE, 'a', []);
    expect(state.isOver).toBe(false);
    link.answer(SERVICE, 'a', []);
    expect(state.isOver).toBe(true);
  });

  it('sends many bytes in pieces, each when few wait to be written', async () => {
    const { link, wire, sent, state } = linked();
    link.open(wire);
    state.unwritten = 1024 * 1024 + 1;
    const done = link.sendPieces(SERVICE, 'piece', 1, new Uint8Array(3 * 64 * 1024 + 1), () => true);
    await Promise.resolve();
    expect(sent).toEqual([]);
    state.unwritten--;
    link.onDrain();
    await done;
    expect(sent).toEqual(['piece', 'piece', 'piece', 'piece']);
  });

  it.each(['over', 'not wanted'])('sends no more pieces if it is %s', async (why) => {
    const { link, wire, sent, state } = linked();
    link.open(wire);
    state.unwritten = 1024 * 1024 + 1;
    const done = link.sendPieces(SERVICE, 'piece', 1, new Uint8Array(1), () => why === 'over');
    if (why === 'over') link.end();
    state.unwritten = 0;
    link.onDrain();
    await done;
    expect(sent).toEqual([]);
  });
});

describe('a link to a node that is no member, as far as this one knows', () => {
  const open = (isMember: boolean) => {
    const state = { isMember };
    const links = new Links({
      incarnation: 'here',
      memory: new MemoryBudget(Infinity),
      logger: SILENT_LOGGER,
      isMember: () => state.isMember,
      dial: () => {},
    });
    links.to('there');
    return { links, state };
  };

  it('stays for a while if the node was found in the engine just now', () => {
    const { links } = open(false);
    for (let i = 0; i < MAX_UNKNOWN_TICKS; i++) links.handleTick();
    expect(links.size).toBe(1);
    links.handleTick();
    expect(links.size).toBe(0);
  });

  it('ends if the node was one before', () => {
    const { links, state } = open(true);
    links.handleTick();
    expect(links.size).toBe(1);
    state.isMember = false;
    links.handleTick();
    expect(links.size).toBe(0);
  });
});

describe('the links of a node', () => {
  const open = () => {
    const dials: { node: string; onOpen: (wire: Transport) => void; onFailed: (why: unknown) => void }[] = [];
    const links = new Links({
      incarnation: 'here',
      memory: new MemoryBudget(Infinity),
      logger: SILENT_LOGGER,
      isMember: () => true,
      dial: (node, onOpen, onFailed) => void dials.push({ node, onOpen, onFailed }),
    });
    return { links, dials };
  };
  const wire = () => ({ send() {}, terminate() {}, listen() {} }) as Partial<Transport> as Transport;

  it('are one to each node, which is ready when it is open', () => {
    const { links, dials } = open();
    expect(links.ready('there')).toBeUndefined();
    const link = links.to('there');
    expect([links.to('there'), dials.length]).toEqual([link, 1]);
    dials[0]?.onOpen(wire());
    expect([links.ready('there'), dials.length]).toEqual([link, 1]);
  });

  it('that cannot be opened are tried again with the next tick, or by who has something to send', () => {
    const { links, dials } = open();
    links.ready('there');
    dials[0]?.onFailed(new Error('refused'));
    expect([links.ready('there'), dials.length]).toEqual([undefined, 1]);
    links.handleTick();
    links.ready('there');
    expect(dials.length).toBe(2);
    dials[1]?.onFailed(new Error('refused'));
    links.to('there');
    expect(dials.length).toBe(3);
  });

  it('to the node itself need no connection', async () => {
    const { links, dials } = open();
    const heard: unknown[] = [];
    links.serve(SERVICE, () => ({ handle: ({ type }) => void heard.push(type), handleOver() {} }));
    links.to('here').send(SERVICE, 'a', []);
    await Promise.resolve();
    expect([heard, dials.length, links.size]).toEqual([['a'], 0, 0]);
  });

  it('are closed in order, so that the other node reads what it was told', async () => {
    const { links } = open();
    const done: string[] = [];
    const near = {
      ...wire(),
      send: (data: Uint8Array | string) => void done.push(decodeLinkMessage(data).type),
      close: (code: number) => void done.push(`closed with ${code}`),
      terminate: () => void done.push('terminated'),
    };
    links.serve(SERVICE, () => ({ handle() {}, handleOver() {} }));
    let events: TransportEvents | undefined;
    const listen = (listener: TransportEvents) => {
      events = listener;
    };
    links.accept({ ...near, listen }, 'there');
    events?.onMessage(word('a'), 1);
    const closed = links.close().then(() => done.push('over'));
    await Promise.resolve();
    expect(done).toEqual(['closed with 1000']);
    events?.onClose(1000, '');
    await closed;
    expect(done).toEqual(['closed with 1000', 'over']);
  });

  it('are closed with it, and no other is taken', () => {
    const { links } = open();
    const ended: string[] = [];
    const ending = (name: string) => ({ ...wire(), terminate: () => void ended.push(name) });
    links.accept(ending('first'), 'there');
    void links.close();
    links.accept(ending('second'), 'there');
    expect([ended, links.to('there').isOver, links.size]).toEqual([['first', 'second'], true, 0]);
  });
});
