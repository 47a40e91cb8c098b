import { setTimeout as pause } from 'node:timers/promises';
import { acceptAnew, askAnew, askedAnew, type Rebuilt } from '../anew.js';
import { type Fields, packed, textOf } from '../bodies.js';
import type { Call } from '../calls.js';
import { isOver } from '../calls.js';
import { Deviation, must, mustEqual } from '../deviation.js';
import { Flag, Kind, parseFrame } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import type { Session, Wish } from '../session.js';
import { checkTally } from './messages.js';
import { checkParts, said } from './streams.js';

/** Sessions that survive the process that has them. */

const SECTION = '§6 A durable session';

/** The client of a durable session, whose messages and requests it keeps until the server has them. */
class DurableClient {
  readonly session: Session;
  readonly texts: string[] = [];
  readonly heard: string[] = [];
  readonly #kit: Kit;
  readonly #wishes = new Map<number, Wish>();
  /** Own messages before the first one of the present link. */
  #base = 0;

  static async begin(kit: Kit): Promise<DurableClient> {
    const session = await kit.sessionAnew({ extensions: { durable: '1' } });
    await session.requires('restart');
    return new DurableClient(kit, session);
  }

  constructor(kit: Kit, session: Session) {
    this.#kit = kit;
    this.session = session;
  }

  async send(text: string): Promise<void> {
    this.texts.push(text);
    await this.#write(text);
  }

  async ask(wish: Wish): Promise<Call> {
    const call = await this.session.ask(wish);
    this.#wishes.set(call.id, wish);
    return call;
  }

  async #write(text: string): Promise<void> {
    await this.session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
  }

  /** All messages of the server, over all links. */
  get messages(): readonly string[] {
    return [...this.heard, ...this.session.link.messages.map(textOf)];
  }

  /** Frames of the kit on this link that end a body, by their index. */
  #ends(kind: number, stream: number): number[] {
    return this.session.link.written.flatMap((bytes, index) => {
      const found = parseFrame(bytes);
      return found.kind === kind && found.stream === stream && !(found.flags & Flag.MORE) ? [index] : [];
    });
  }

  get have(): Fields {
    const { link } = this.session;
    const isAcknowledged = (index: number) => index < link.confirmed;
    const open = [...link.calls.values()].filter((call) => !isOver(call));
    return {
      messages: this.messages.length,
      sent: this.#base + this.#ends(Kind.MESSAGE, 0).filter(isAcknowledged).length,
      written: this.texts.length,
      opened: link.last.own,
      heard: link.last.peer,
      streams: open.flatMap(({ id, parts }) => [
        id,
        parts.length,
        this.#ends(Kind.REQUEST, id).some(isAcknowledged) ? 1 : 0,
      ]),
    };
  }

  /** Asks for the session until a process has it from the record. @param change members of `resume`. */
  async reach(change: Fields = {}): Promise<Rebuilt> {
    const deadline = Date.now() + this.#kit.door.timeoutMs;
    for (;;) {
      try {
        return await askAnew(this.#kit, this.session, { have: this.have, ...change });
      } catch (error) {
        if (!(error instanceof Deviation) || Date.now() > deadline) throw error;
        await pause(30);
      }
    }
  }

  /** Continues at a process that has the session from the record. */
  async goOn(): Promise<{ readonly handled: number; readonly again: readonly number[] }> {
    const { session } = this;
    const { wire, resume, rebuilt, bytes } = await this.reach();
    mustEqual(resume.recovered, true, 'resume.recovered', bytes);
    const { handled, again = [] } = (rebuilt['kept'] ?? {}) as { handled?: unknown; again?: number[] };
    const { sent } = this.have as { sent: number };
    must(typeof handled === 'number', 'kept.handled is not a number', bytes);
    must(
      handled >= sent && handled <= this.texts.length,
      `handled ${handled} of ${sent} to ${this.texts.length}`,
      bytes,
    );
    this.heard.push(...session.link.messages.map(textOf));
    const calls = [...session.link.calls.values()].filter((call) => !isOver(call));
    session.beginAnew(wire, { calls });
    this.#base = handled;
    for (const text of this.texts.slice(handled)) await this.#write(text);
    for (const id of again) {
      const wish = this.#wishes.get(id);
      must(wish !== undefined, `kept.again lists ${id}, which is not open`, bytes);
      await session.link.writeBody(Kind.REQUEST, id, { bytes: '', metadata: packed(wish) });
    }
    return { handled, again };
  }

  /** The process of the server ends, and another one continues. */
  async restart(): ReturnType<DurableClient['goOn']> {
    await this.session.ask({ test: 'restart' });
    await this.session.wire.end(undefined, 'the server was told to end');
    this.session.lose();
    return await this.goOn();
  }
}

/** A client under test in a durable session whose server the kit plays. */
const durable = (kit: Kit): Promise<Session> => kit.session({ extensions: { durable: '1' } });

export const DURABLE: readonly Scenario[] = [
  {
    name: 'durable/goes-on',
    section: SECTION,
    tests: 'server',
    title: 'Messages of both ends arrive once and in order, although the process of the server ends twice.',
    async run(kit) {
      const client = await DurableClient.begin(kit);
      const { session } = client;
      let handled = 0;
      for (let round = 0; round < 3; round++) {
        for (let index = 0; index < 5; index++) await client.send(said('message', client.texts.length, 30));
        await checkTally(session, client.texts.slice(handled));
        await session.answer({ test: 'say', messages: 4, size: 20 });
        handled = (await client.restart()).handled;
      }
      await session.until(() => client.messages.length >= 12 || undefined, 'twelve messages');
      const expected = Array.from({ length: 12 }, (_, index) => said('message', (index % 4) + 1, 20));
      mustEqual(client.messages, expected, 'the messages of the server');
      await checkTally(session, client.texts.slice(handled));
    },
  },
  {
    name: 'durable/acknowledges-what-is-handled',
    section: SECTION,
    tests: 'server',
    title:
      'A message is acknowledged when it is handled, and is handled again by the next process if it was not.',
    async run(kit) {
      const client = await DurableClient.begin(kit);
      const { session } = client;
      await client.send('handled');
      await session.until(
        () => (client.have['sent'] === 1 ? true : undefined),
        'the acknowledgement of a message',
      );
      await session.ask({ test: 'hold' });
      await session.stillWorks('a reader that waits');
      await client.send('not handled');
      await client.send('not read');
      await pause(400);
      mustEqual(client.have['sent'], 1, 'messages that are acknowledged while their reader waits');
      const { handled } = await client.restart();
      mustEqual(handled, 1, 'kept.handled');
      await checkTally(session, ['not handled', 'not read']);
    },
  },
  {
    name: 'durable/open-requests',
    section: SECTION,
    tests: 'server',
    title:
      'A request whose handler had started fails with interrupted behind its parts, or is called again and continues.',
    async run(kit) {
      const client = await DurableClient.begin(kit);
      const { session } = client;
      const lost = await client.ask({ test: 'stream', parts: 60, size: 20, pace: 10 });
      const again = await client.ask({ test: 'stream', parts: 60, size: 20, pace: 10, again: true });
      for (const call of [lost, again])
        await session.until(() => call.parts.length > 3 || undefined, 'four parts');
      const kept = await client.restart();
      mustEqual(kept['again'], [again.id], 'kept.again');
      await session.over(lost);
      mustEqual(lost.error?.['code'], 'interrupted', 'the code of the error');
      checkParts(lost.parts, lost.parts.length, 20);
      await session.over(again);
      checkParts(again.parts, 60, 20);
    },
  },
  {
    name: 'durable/lost-accept',
    section: SECTION,
    tests: 'server',
    title: 'If the ACCEPT of the next process is lost, the token from before begins yet another link.',
    async run(kit) {
      const client = await DurableClient.begin(kit);
      const { session } = client;
      await client.send('one');
      await session.answer({ test: 'say', messages: 2, size: 20 });
      await session.until(() => client.messages.length >= 2 || undefined, 'two messages');
      await session.ask({ test: 'restart' });
      await session.wire.end(undefined, 'the server was told to end');
      session.lose();
      const { token } = session.agreement;
      const first = await client.reach();
      mustEqual(first.resume.recovered, true, 'resume.recovered', first.bytes);
      first.wire.cut();
      session.agreement.token = token;
      await client.goOn();
      await session.stillWorks('an ACCEPT that was lost');
      mustEqual(client.messages.length, 2, 'the number of messages');
    },
  },
  ...(
    [
      ['without-have', 'A HELLO without have', () => undefined],
      ['wrong-have', 'A have whose counts are no numbers', (have: Fields) => ({ ...have, messages: 'many' })],
      [
        'written-too-little',
        'A have that states less written than is handled',
        (have: Fields) => ({ ...have, written: 0, sent: 0 }),
      ],
      [
        'counts-beyond',
        'A have with counts that are more than 2^20 beyond the record',
        (have: Fields) => ({ ...have, messages: 2 ** 21 }),
      ],
    ] as const
  ).map(
    ([name, what, change]): Scenario => ({
      name: `durable/${name}`,
      section: SECTION,
      tests: 'server',
      title: `${what} is refused by a process that has the session from the record, with no_state.`,
      async run(kit) {
        const client = await DurableClient.begin(kit);
        const { session } = client;
        await client.send('one');
        await session.until(() => (client.have['sent'] === 1 ? true : undefined), 'the acknowledgement');
        await session.ask({ test: 'restart' });
        await session.wire.end(undefined, 'the server was told to end');
        session.lose();
        const { resume, bytes } = await client.reach({ have: change(client.have) });
        mustEqual([resume.recovered, resume.reason], [false, 'no_state'], 'recovered and reason', bytes);
      },
    }),
  ),
  {
    name: 'durable/have',
    section: SECTION,
    tests: 'client',
    title: 'A client says how many messages and parts it has, and what it has written.',
    async run(kit) {
      const session = await durable(kit);
      for (let index = 0; index < 3; index++) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'x' });
      await checkTally(session, ['x', 'x', 'x']);
      session.link.acknowledge();
      await session.stillWorks('an acknowledgement');
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 4, size: 20 });
      await session.ask({ test: 'ask', size: 10 });
      const asked = await session.asked('a request of the client');
      await session.link.writeBody(Kind.CHUNK, asked.id, { bytes: '', metadata: packed({ a: 1 }) });
      for (const text of ['a', 'b']) await session.link.writeBody(Kind.CHUNK, asked.id, { bytes: text });
      await session.stillWorks('metadata and two parts');
      session.lose();
      const { resume, bytes } = await askedAnew(kit, session);
      const have = (resume['have'] ?? {}) as Fields;
      mustEqual(
        [have['messages'], have['sent'], have['written'], have['opened'], have['heard']],
        [3, 0, 4, asked.id, session.link.last.own],
        'messages, sent, written, opened and heard',
        bytes,
      );
      mustEqual(have['streams'], [asked.id, 3, 0], 'streams', bytes);
    },
  },
  {
    name: 'durable/writes-again',
    section: SECTION,
    tests: 'client',
    title:
      'A client writes again its messages after handled, and the requests that again lists, with their IDs.',
    async run(kit) {
      const session = await durable(kit);
      session.link.acknowledges = false;
      await session.answer({ test: 'say', messages: 4, size: 20 });
      await session.ask({ test: 'ask', requests: 2, size: 10 });
      const [one, two] = [await session.asked('a request'), await session.asked('a second request')];
      await session.until(() => session.link.messages.length >= 4 || undefined, 'four messages');
      session.lose();
      const { wire } = await askedAnew(kit, session);
      acceptAnew(session, wire, {
        rebuilt: { kept: { handled: 2, again: [two.id] } },
        goesOn: { again: [two.id] },
      });
      const again = await session.asked('the request that is called again');
      mustEqual(again.id, two.id, 'the ID of the request that is written again');
      mustEqual(textOf(again.body), textOf(two.body), 'its body');
      const texts = [3, 4].map((index) => said('message', index, 20));
      await session.until(() => session.link.messages.length >= 2 || undefined, 'two messages again');
      await session.stillWorks('a new link');
      mustEqual(session.link.messages.map(textOf), texts, 'the messages after those that are handled');
      must(session.link.asked.length === 0, `a request beside those of again (the other one is ${one.id})`);
    },
  },
  ...(
    [
      ['handled-too-much', 'above written', 3],
      ['handled-too-little', 'below sent', 0],
    ] as const
  ).map(
    ([name, what, handled]): Scenario => ({
      name: `durable/${name}`,
      section: SECTION,
      tests: 'client',
      title: `A handled ${what} ends the session with 4400 at the client.`,
      async run(kit) {
        const session = await durable(kit);
        await session.answer({ test: 'say', messages: 2, size: 20 });
        await session.until(() => session.link.messages.length >= 2 || undefined, 'two messages');
        session.link.acknowledge();
        await session.stillWorks('an acknowledgement');
        session.lose();
        const { wire } = await askedAnew(kit, session);
        acceptAnew(session, wire, { rebuilt: { kept: { handled, again: [] } } });
        await wire.end([4400], `handled ${what}`);
      },
    }),
  ),
];
