import { setTimeout as pause } from 'node:timers/promises';
import { type Body, type Fields, packed, textOf } from '../bodies.js';
import type { Call } from '../calls.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, Codec, frame, Kind, MIN_WINDOW } from '../frames.js';
import { controlOn, envelope, type Kit } from '../kit.js';
import { jsonIn } from '../members.js';
import { helloOf, type Offer } from '../offers.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { A_WHILE } from '../waiting.js';
import { said } from './streams.js';

/** Agents of one server, which relays between them. */

const SECTION = '§11 Agents';

/** A session of the kit that is an agent. */
export async function agent(kit: Kit, agentId: string, offer: Offer = {}): Promise<Session> {
  const extensions = { agents: JSON.stringify({ metadata: { skill: agentId } }), ...offer.extensions };
  const session = await kit.session({ ...offer, agentId, extensions });
  await session.stillWorks('the handshake of an agent');
  return session;
}

/** A request to another agent, which the kit plays as well. */
async function asks(session: Session, to: string, text: string, metadata: Fields = {}): Promise<Call> {
  const call = session.link.openStream();
  const number = session.numberOf(to);
  await session.link.writeBody(Kind.REQUEST, call.id, {
    bytes: text,
    agent: number,
    metadata: packed(metadata),
  });
  return call;
}

export async function tells(session: Session, to: string, text: string): Promise<void> {
  await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text, agent: session.numberOf(to) });
}

/** The next one-way messages, and whom they are from. */
export async function heard(session: Session, number: number): Promise<readonly Body[]> {
  await session.until(() => session.link.messages.length >= number || undefined, `${number} messages`);
  return session.link.messages;
}

/** Reports about messages that were not delivered. */
async function report(session: Session, index = 0): Promise<Fields> {
  const body = await session.until(
    () => session.link.messages.filter(({ agent: name }) => name === '@delivery')[index],
    'a message of @delivery',
  );
  return jsonIn<Fields>(body);
}

async function directory(session: Session, watch: boolean): Promise<Call> {
  const call = session.link.openStream();
  const body = JSON.stringify({ watch });
  await session.link.writeBody(Kind.REQUEST, call.id, { bytes: body, agent: session.numberOf('@directory') });
  return call;
}

interface Listed {
  readonly present: readonly Fields[];
  readonly gone: readonly string[];
  readonly complete?: boolean;
}
const lists = (call: Call): readonly Listed[] => call.parts.map((part) => jsonIn<Listed>(part));

export const AGENTS: readonly Scenario[] = [
  {
    name: 'agents/messages',
    section: SECTION,
    tests: 'server',
    title: 'One-way messages to an agent arrive once, in order, with the name of the session that sent them.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      const texts = Array.from({ length: 30 }, (_, index) => said('message', index, 30));
      for (const [index, text] of texts.entries()) {
        await tells(a, 'b', text);
        if (index % 10 === 4) a.cut();
        if (index % 10 === 8) b.cut(2);
      }
      const messages = await heard(b, 30);
      mustEqual(messages.map(textOf), texts, 'the messages');
      for (const { agent: from } of messages) mustEqual(from, 'a', 'the sender');
    },
  },
  {
    name: 'agents/requests',
    section: SECTION,
    tests: 'server',
    title: 'A request to an agent, its metadata, parts, end and errors are passed on.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      const call = await asks(a, 'b', 'question', { kind: 'greeting' });
      const asked = await b.asked('the request of the other agent');
      mustEqual(textOf(asked.body), 'question', 'the request');
      mustEqual(asked.body.agent, 'a', 'the sender');
      mustEqual(asked.body.metadata, { kind: 'greeting' }, 'its metadata');
      for (const text of ['one', 'two']) b.link.write(...bodyFrames(Kind.CHUNK, asked.id, { bytes: text }));
      b.end(asked.id);
      await a.over(call);
      mustEqual(call.parts.map(textOf), ['one', 'two'], 'the parts');
      const other = await asks(a, 'b', 'question');
      const { id } = await b.asked('the second request');
      b.link.write(frame(Kind.ERROR, id, packed({ code: 'no_time', message: 'later', retryable: true })));
      const { error } = await a.over(other);
      mustEqual([error?.['code'], error?.['retryable']], ['no_time', true], 'the error');
    },
  },
  {
    name: 'agents/cancel',
    section: SECTION,
    tests: 'server',
    title: 'A cancel is passed on to the agent that was asked.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      const call = await asks(a, 'b', 'question');
      const asked = await b.asked('the request of the other agent');
      a.link.write(frame(Kind.CANCEL, call.id));
      await b.until(() => asked.isCancelled || undefined, 'the cancel');
      b.end(asked.id);
      await a.over(call, 'end or error after a cancel');
    },
  },
  {
    name: 'agents/unknown',
    section: SECTION,
    tests: 'server',
    title: 'A request to an unknown agent fails with unknown_agent, and a message is reported.',
    async run(kit) {
      const a = await agent(kit, 'a');
      const call = await a.over(await asks(a, 'nobody', 'question'));
      mustEqual(call.error?.['code'], 'unknown_agent', 'the code of the error');
      for (let index = 0; index < 3; index++) await tells(a, 'nobody', 'message');
      let reported = 0;
      for (let index = 0; reported < 3; index++) {
        const { to, outcome, reason, first, count } = await report(a, index);
        mustEqual([to, outcome, reason], ['nobody', 'not_sent', 'unknown_agent'], 'to, outcome and reason');
        mustEqual(first, reported + 1, 'the first message of the report');
        reported += Number(count);
      }
      mustEqual(reported, 3, 'the number of messages that are reported');
    },
  },
  {
    name: 'agents/other-principal',
    section: SECTION,
    tests: 'server',
    title:
      'An agent of another principal is told apart from one of the same ID, and cannot be told from none.',
    async run(kit) {
      const a = await agent(kit, 'a');
      await a.requires('credentials');
      const stranger = await agent(kit, 'a', { token: 'stranger' });
      const b = await agent(kit, 'worker-b');
      await tells(a, 'worker-b', 'from kit');
      mustEqual(textOf((await heard(b, 1))[0] as Body), 'from kit', 'the message');
      const hidden = (await stranger.over(await asks(stranger, 'worker-b', 'question'))).error;
      const missing = (await stranger.over(await asks(stranger, 'worker-c', 'question'))).error;
      mustEqual(hidden?.['code'], 'unknown_agent', 'the code of the error');
      const spelled = (error: Fields | undefined, name: string) =>
        JSON.stringify(error).replaceAll(name, '?');
      mustEqual(
        spelled(hidden, 'worker-b'),
        spelled(missing, 'worker-c'),
        'the error for an agent that is hidden',
      );
    },
  },
  {
    name: 'agents/same-id',
    section: SECTION,
    tests: 'server',
    title: 'A second session with the ID either ends the first one with 4409 or is rejected with 4403.',
    async run(kit) {
      const first = await agent(kit, 'a');
      const wire = await kit.connect();
      wire.send(envelope('HELLO', null, helloOf({ agentId: 'a', extensions: { agents: '{}' } })));
      const answer = await Promise.race([
        controlOn(wire, 'ACCEPT').then(
          () => 'ACCEPT',
          () => 'REJECT',
        ),
        pause(kit.door.timeoutMs),
      ]);
      if (answer === 'ACCEPT') await first.wire.end([4409], 'a second session took the ID over');
      else await wire.end([4403], 'a second session with the ID');
    },
  },
  {
    name: 'agents/peer-gone',
    section: SECTION,
    tests: 'server',
    title:
      'If the target ends, requests fail with peer_gone, and messages that it has not acknowledged are reported.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      b.link.acknowledges = false;
      await tells(a, 'b', 'message');
      const call = await asks(a, 'b', 'question');
      await b.asked('the request of the other agent');
      await b.violate(Uint8Array.of(0x60), [4400], 'a violation');
      mustEqual((await a.over(call)).error?.['code'], 'peer_gone', 'the code of the error');
      const { to, outcome, reason, first, count } = await report(a);
      mustEqual([to, outcome, reason, first, count], ['b', 'unknown', 'peer_gone', 1, 1], 'the report');
    },
  },
  {
    name: 'agents/suspended',
    section: SECTION,
    tests: 'server',
    title: 'What is for an agent whose connection is lost waits until it comes back.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      b.lose();
      await tells(a, 'b', 'message');
      const call = await asks(a, 'b', 'question');
      await a.stillWorks('a target without a connection');
      await b.resume();
      mustEqual(textOf((await heard(b, 1))[0] as Body), 'message', 'the message');
      b.respond((await b.asked('the request of the other agent')).id, { bytes: 'answer' });
      mustEqual(textOf(responseOf(await a.over(call))), 'answer', 'the answer');
    },
  },
  {
    name: 'agents/back-pressure',
    section: SECTION,
    tests: 'server',
    title: 'A sender gets credit back only when the receiver takes what it sent.',
    async run(kit) {
      const a = await agent(kit, 'a');
      const b = await agent(kit, 'b', { link: { message_window: MIN_WINDOW } });
      b.link.grants = false;
      const window = a.windows.messages;
      const text = 'm'.repeat(8_000);
      const most = window + MIN_WINDOW + 2 * text.length;
      let sent = 0;
      while (a.link.outgoing.available(0) > text.length + 100 && sent < most) {
        await tells(a, 'b', text);
        sent += text.length;
        if (sent % (text.length * 8) === 0) await pause(1);
      }
      await pause(A_WHILE);
      const granted = a.link.outgoing.limitOf(0);
      must(granted <= most, `credit of ${granted} bytes although the receiver has taken one window`);
      b.link.grants = true;
      b.link.grant(0, 100_000_000);
      await b.until(() => b.link.messages.length * text.length >= sent || undefined, 'all messages');
    },
  },
  {
    name: 'agents/recoded',
    section: SECTION,
    tests: 'server',
    title: 'A body is passed on as it is if both have its algorithm, and decoded otherwise.',
    async run(kit) {
      const a = await agent(kit, 'a', { algorithms: ['BROTLI', 'NONE'] });
      const b = await agent(kit, 'b', { algorithms: ['BROTLI', 'NONE'] });
      const plain = await agent(kit, 'c');
      const text = 'the same words again and again, '.repeat(20);
      const coded = a.coder.encode(text, 'BROTLI');
      for (const to of ['b', 'c'])
        await a.link.writeBody(Kind.MESSAGE, 0, { ...coded, agent: a.numberOf(to) });
      const [kept, recoded] = [(await heard(b, 1))[0] as Body, (await heard(plain, 1))[0] as Body];
      mustEqual([kept.codec, textOf(kept)], [Codec.BROTLI, text], 'codec and content');
      must(Buffer.compare(kept.coded, coded.bytes) === 0, 'the body has other bytes', kept.coded);
      mustEqual([recoded.codec, textOf(recoded)], [Codec.NONE, text], 'codec and content for one without it');
    },
  },
  {
    name: 'agents/directory',
    section: SECTION,
    tests: 'server',
    title: 'The directory lists the agents that a session may see, without itself; a watch reports changes.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      const list = await a.over(await directory(a, false));
      must(lists(list).at(-1)?.complete === true, 'the last part is not complete');
      const present = lists(list).flatMap((part) => part.present);
      mustEqual(
        present.map(({ id }) => id),
        ['b'],
        'the agents',
      );
      const { address, state, algorithms, metadata } = present[0] as Fields;
      mustEqual(
        [address, state, algorithms, metadata],
        ['b', 'connected', ['NONE'], { skill: 'b' }],
        'agent b',
      );
      const watch = await directory(a, true);
      await a.until(() => lists(watch).some((part) => part.complete) || undefined, 'the list');
      const second = await a.over(await directory(a, true));
      mustEqual(second.error?.['code'], 'too_many_streams', 'the error of a second watch');
      await b.close();
      await a.until(
        () => lists(watch).some(({ gone }) => gone.includes('b')) || undefined,
        'agent b in gone',
      );
      await agent(kit, 'd');
      await a.until(
        () => lists(watch).some((part) => part.present.some(({ id }) => id === 'd')) || undefined,
        'agent d in present',
      );
      a.link.write(frame(Kind.CANCEL, watch.id));
      await a.over(watch, 'end or error after a cancel');
    },
  },
  {
    name: 'agents/redelivered-is-removed',
    section: '§11 Agents: delivery',
    tests: 'server',
    title: 'A server takes the entry @redelivered out of what a client sends, and no other one.',
    async run(kit) {
      const [a, b] = [await agent(kit, 'a'), await agent(kit, 'b')];
      const metadata = packed({ '@redelivered': true, kind: 'greeting' });
      await a.link.writeBody(Kind.MESSAGE, 0, { bytes: 'hi', agent: a.numberOf('b'), metadata });
      const [message] = await heard(b, 1);
      mustEqual(message?.metadata, { kind: 'greeting' }, 'the metadata');
    },
  },
];
