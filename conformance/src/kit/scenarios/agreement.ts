import { setTimeout as pause } from 'node:timers/promises';
import { type Fields, packed } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { Listener } from '../door.js';
import { bodyFrames, Kind, MIN_WINDOW } from '../frames.js';
import { controlOn, envelope, greetedOn, type Kit, payloadOf } from '../kit.js';
import { acceptIn } from '../members.js';
import { helloOf, windowsOf } from '../offers.js';
import type { Scenario } from '../scenario.js';
import { toldBy } from '../told.js';
import { A_WHILE } from '../waiting.js';

/** The agreement of the two ends, and whether they keep to it. */

/** After these codes only the connection is lost (`RES-1`). */
const LOSES = [1001, 1005, 1006, 1011, 1012, 1013, 1014, 4408, 4411];
const mustLose = (code: number | undefined): void =>
  must(
    code === undefined || LOSES.includes(code),
    `the client has left its connection with ${code}, which ends the session`,
  );

/** The ACCEPT for a HELLO with these fields. */
async function accepted(kit: Kit, change: Fields): Promise<{ accept: Fields; bytes: Uint8Array }> {
  const wire = await kit.connect();
  wire.send(envelope('HELLO', null, { ...helloOf({}), ...change }));
  const { fields, bytes } = await controlOn(wire, 'ACCEPT');
  return { accept: acceptIn(payloadOf(fields), bytes), bytes };
}

export const AGREEMENT: readonly Scenario[] = [
  {
    name: 'agreement/encoding',
    section: '§2 ACCEPT',
    tests: 'server',
    title: 'The encoding is the preferred one if the server has it, else the first of the list that it has.',
    async run(kit) {
      const algorithms = ['TOKEN_NATIVE', 'NONE'];
      const chosen = async (encodings: readonly string[], preferred: string | null) =>
        (await accepted(kit, { algorithms, encodings, preferred_encoding: preferred })).accept['encoding'];
      const has = async (name: string) => (await chosen([name], null)) === name;
      const names = ['CL100K_BASE', 'O200K_BASE'];
      for (const name of names) if (!(await has(name))) throw new NotApplicable(`the server has no ${name}`);
      mustEqual(await chosen(names, 'O200K_BASE'), 'O200K_BASE', 'the encoding that is preferred');
      mustEqual(await chosen(names, null), 'CL100K_BASE', 'the first encoding');
      mustEqual(
        await chosen(names, 'LLAMA_BPE'),
        'CL100K_BASE',
        'the first encoding, if the preferred one is not in the list',
      );
      mustEqual(
        await chosen(['UNHEARD_OF', ...names], null),
        'CL100K_BASE',
        'the first encoding that is known',
      );
    },
  },
  {
    name: 'agreement/other-vocabulary',
    section: '§2 HELLO',
    tests: 'server',
    title: 'A server does not choose an encoding for which the client has another rank file.',
    async run(kit) {
      const algorithms = ['TOKEN_NATIVE', 'NONE'];
      const hello = { algorithms, encodings: ['CL100K_BASE'], preferred_encoding: 'CL100K_BASE' };
      const { extensions } = helloOf({}) as { extensions: Fields };
      const vocabularies = JSON.stringify({ CL100K_BASE: '0'.repeat(64) });
      const { accept, bytes } = await accepted(kit, {
        ...hello,
        extensions: { ...extensions, vocabularies },
      });
      must(accept['encoding'] === null, 'an encoding of which the client has another file', bytes);
      mustEqual(accept['algorithms'], ['NONE'], 'algorithms without an encoding', bytes);
    },
  },
  {
    name: 'agreement/without-encoding',
    section: '§2 ACCEPT',
    tests: 'server',
    title: 'Without an encoding in common TOKEN_NATIVE is left out.',
    async run(kit) {
      const { accept, bytes } = await accepted(kit, { algorithms: ['TOKEN_NATIVE', 'NONE'], encodings: [] });
      mustEqual(accept['algorithms'], ['NONE'], 'algorithms', bytes);
    },
  },
  {
    name: 'agreement/needed-extensions',
    section: '§2 ACCEPT',
    tests: 'server',
    title: 'A server agrees on no extension without those that it needs.',
    async run(kit) {
      const one = await accepted(kit, {
        extensions: {
          resume: '{}',
          context: '{"max_bytes":0,"max_messages":0}',
          agents: '{}',
          replies: '{}',
        },
      });
      mustEqual(one.accept['extensions'], {}, 'extensions without link', one.bytes);
      must((one.accept['resume'] ?? null) === null, 'resume without link', one.bytes);
      const other = await accepted(kit, {
        extensions: { link: '{}', rebuild: '1', move: '1', durable: '1' },
      });
      mustEqual(
        Object.keys(other.accept['extensions'] as Fields),
        ['link'],
        'extensions without resume',
        other.bytes,
      );
    },
  },
  {
    name: 'agreement/nested',
    section: '§2 HELLO',
    tests: 'server',
    title: 'A server that accepts the nested shape answers in it, without resume.',
    async run(kit) {
      const wire = await kit.connect();
      wire.send(
        envelope('HELLO', null, {
          version: '3.0',
          agent_id: '',
          agent_type: 'kit',
          compression: {
            algorithms: ['none'],
            max_payload: 0,
            streaming: true,
            ml_routing: false,
            encodings: [],
          },
          security: {
            threat_detection: false,
            model_version: null,
            blocking_mode: false,
            block_threshold: 0.8,
          },
          extensions: { link: '{}', resume: '{}', rebuild: '1' },
          auth: { token: 'kit' },
        }),
      );
      const answer = await wire.next('an answer to a nested HELLO').catch(() => undefined);
      if (answer === undefined || !Buffer.from(answer).includes('ACCEPT'))
        throw new NotApplicable('the server does not accept the nested shape');
      must(Buffer.from(answer).includes('compression'), 'the answer is not nested', answer);
      must(!Buffer.from(answer).includes('resume'), 'resume in the nested shape', answer);
    },
  },
  {
    name: 'agreement/windows',
    section: '§4 The link',
    title: 'The windows that the peer states hold the head of any body.',
    async run(kit) {
      const { agreement } = await kit.session();
      const stated = (kit.door.peer === 'server' ? agreement.accept : agreement.hello)[
        'extensions'
      ] as Fields;
      const { messages, stream } = windowsOf(stated['link']);
      must(messages >= MIN_WINDOW, `message_window is ${messages}`);
      must(stream >= MIN_WINDOW, `stream_window is ${stream}`);
    },
  },
  {
    name: 'agreement/no-messages',
    section: '§4 The link',
    title: 'The peer sends no one-way message to an end that reads none.',
    async run(kit) {
      const session = await kit.session({ link: { messages: false } });
      await session.over(await session.ask({ test: 'say', messages: 2, size: 20 }));
      await pause(A_WHILE);
      mustEqual(session.link.messages.length, 0, 'the number of messages');
      await session.stillWorks('messages that nobody reads');
    },
  },
  {
    name: 'agreement/limits',
    section: '§2 ACCEPT',
    tests: 'client',
    title: 'A client sends no body above the limits of ACCEPT, and opens no more streams.',
    async run(kit) {
      const session = await kit.session({ limits: { maxMessageSize: 1_000, maxStreams: 2 } });
      const said = await session.over(await session.ask({ test: 'say', messages: 1, size: 1_001 }));
      must(said.error !== undefined, 'a client takes a body above the limit');
      await session.answer({ test: 'say', messages: 1, size: 900 });
      await session.until(() => session.link.messages.length > 0 || undefined, 'a message within the limit');
      mustEqual(
        session.link.messages.map(({ content }) => content.length),
        [900],
        'the lengths of messages',
      );
      const asks = await session.ask({ test: 'ask', requests: 4, size: 10 });
      await session.asked('a request');
      await pause(A_WHILE);
      must(
        session.link.asked.length <= 1,
        `${session.link.asked.length + 1} streams although two may be open`,
      );
      void asks;
    },
  },
  {
    name: 'agreement/waits-for-the-rate',
    section: '§13 Rates',
    tests: 'client',
    title: 'A client waits if it has sent as many messages as the rate of ACCEPT allows at once.',
    async run(kit) {
      const session = await kit.session({ limits: { messagesPerMinute: 30 } });
      await session.ask({ test: 'say', messages: 40, size: 20 });
      await session.until(
        () => session.link.messages.length >= 20 || undefined,
        'the messages that may come at once',
      );
      await pause(A_WHILE * 2);
      const { length } = session.link.messages;
      must(length <= 32, `${length} messages at once although the rate allows 30`);
    },
  },
  {
    name: 'agreement/retry-after',
    section: '§2 REJECT',
    tests: 'client',
    title: 'A client that is rejected does not come back before retry_after_ms.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      session.lose();
      const { wire } = await kit.greeted();
      const reject = { code: 'SERVER_BUSY', message: 'a test', retryable: true, retry_after_ms: 500 };
      // The client cannot count from before this, however late the kit hears of the end.
      const start = Date.now();
      wire.send(envelope('REJECT', null, reject));
      wire.close(4503);
      await wire.end(undefined, 'REJECT');
      await session.resume();
      const waited = Date.now() - start;
      must(waited >= 490, `the client came back after ${waited} ms`);
      await session.stillWorks('a REJECT that is retryable');
    },
  },
  {
    name: 'agreement/rejected-later',
    section: '§2 REJECT',
    tests: 'client',
    title: 'REJECT in an established session ends it.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const reject = { code: 'SECURITY_POLICY', message: 'content was blocked', retryable: false };
      session.wire.send(session.control('REJECT', reject));
      await pause(20);
      session.wire.close(4403);
      await session.wire.end(undefined, 'REJECT');
      const { hello, bytes } = await kit.greeted();
      must((hello['resume'] ?? null) === null, 'the client resumes a session that was rejected', bytes);
    },
  },
  {
    name: 'agreement/bad-utf8',
    section: 'Conventions',
    title: 'Metadata with a text that is not UTF-8 are an error of decoding.',
    async run(kit) {
      const session = await kit.session();
      const call = session.link.openStream();
      const metadata = Uint8Array.from(packed({ test: 'xxxx' }));
      metadata[metadata.length - 1] = 0xff;
      session.link.write(...bodyFrames(Kind.REQUEST, call.id, { bytes: 'x', metadata }));
      const { error } = await session.over(call);
      must(
        ['bad_message', 'bad_utf8'].includes(String(error?.['code'])),
        `the code is ${String(error?.['code'])}`,
      );
      await session.stillWorks('metadata that are not UTF-8');
    },
  },
  {
    name: 'agreement/move',
    section: '§6 Moving',
    tests: 'client',
    title: 'A client that is asked to move keeps its connection until another one carries the session.',
    async run(kit) {
      const session = await kit.session({ extensions: { move: '1' } });
      const open = await session.ask({ test: 'ask', size: 10 });
      const asked = await session.asked('a request of the client');
      const former = session.wire;
      if (kit.door instanceof Listener) kit.door.hold();
      former.send(
        session.control('GOAWAY', { retry_after_ms: 1, deadline: Date.now() + 60_000, move: true }),
      );
      await session.stillWorks('GOAWAY with move');
      const late = await session.ask({ test: 'ask', size: 10 });
      const second = await session.asked('a request after GOAWAY with move');
      const left = () => former.closed?.code;
      must(left() === undefined, `the client has left its connection too early, with ${left()}`);
      const next = await kit.connect();
      const greeted = await greetedOn(next);
      // Once the other one is open it may leave the former one, with a code that loses only a connection.
      mustLose(left());
      const { wire, received } = kit.resumeOn(session, greeted);
      session.goOnOver(wire, received);
      await former.end(undefined, 'the session has moved');
      for (const { id } of [asked, second]) session.respond(id, { bytes: 'answer' });
      for (const call of [open, late])
        mustEqual((await toldBy(session, call))[0].parts, ['answer'], 'the answer');
    },
  },
];
