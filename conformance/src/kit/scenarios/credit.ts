import { setTimeout as pause } from 'node:timers/promises';
import { packed, textOf } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { BODY_CHARGE, bodyFrames, frame, Kind, MIN_WINDOW, varint } from '../frames.js';
import type { Scenario } from '../scenario.js';
import { responseOf } from '../session.js';
import { A_WHILE } from '../waiting.js';
import { checkTally } from './messages.js';
import { checkParts, said } from './streams.js';

/** Flow control, in both directions. */

const SECTION = '§5 Credit';
/** The most that a body of this size costs: if it is cut, it states its total as well. */
const costOf = (size: number): number => size + BODY_CHARGE + varint(size).length;

export const CREDIT: readonly Scenario[] = [
  {
    name: 'credit/reply-waits',
    section: SECTION,
    title: 'A reply stops at its credit, and continues when it is granted more.',
    async run(kit) {
      const size = 5000;
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      const call = await session.ask({ test: 'stream', parts: 8, size });
      await session.until(() => call.parts.length >= 3 || undefined, 'three parts');
      await pause(A_WHILE);
      must(call.parts.length === 3, `${call.parts.length} parts although credit allows three`);
      session.link.grant(call.id, 5 * costOf(size));
      await session.until(() => call.parts.length >= 5 || undefined, 'five parts after credit for them');
      session.link.grant(call.id, 100_000);
      await session.over(call);
      checkParts(call.parts, 8, size);
    },
  },
  {
    name: 'credit/null-beside-std',
    section: '§2 Standard values',
    title: 'A window that is null beside std is the standard one, and not unlimited.',
    async run(kit) {
      const size = 5000;
      // A server understands it in every HELLO, and a client that lists the extension.
      const extensions = kit.door.peer === 'client' ? { std: '1' } : {};
      const session = await kit.session({ link: { std: 1, stream_window: null }, extensions });
      session.link.grants = false;
      const call = await session.ask({ test: 'stream', parts: 8, size });
      await session.until(() => call.parts.length >= 3 || undefined, 'three parts');
      await pause(A_WHILE);
      mustEqual(call.parts.length, 3, 'the number of parts within 16,384 bytes');
      session.link.grant(call.id, 100_000);
      await session.over(call);
      checkParts(call.parts, 8, size);
    },
  },
  {
    name: 'credit/messages-wait',
    section: SECTION,
    title: 'One-way messages stop at the credit of stream 0; requests do not wait for them.',
    async run(kit) {
      const session = await kit.session({ link: { message_window: MIN_WINDOW } });
      session.link.grants = false;
      const call = await session.ask({ test: 'say', messages: 10, size: 5000 });
      await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages');
      await pause(A_WHILE);
      must(
        session.link.messages.length === 3,
        `${session.link.messages.length} messages, credit allows three`,
      );
      await session.stillWorks('messages that wait');
      session.link.grant(0, 100_000);
      await session.over(call);
      await session.until(() => session.link.messages.length >= 10 || undefined, 'ten messages');
      mustEqual(session.link.messages.map(textOf).at(-1), said('message', 10, 5000), 'the last message');
    },
  },
  {
    name: 'credit/body-is-cut',
    section: SECTION,
    title: 'A body beyond the available credit is cut into frames.',
    async run(kit) {
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      const text = 'y'.repeat(60_000);
      const call = await session.ask({ test: 'echo' }, { bytes: text });
      for (let limit = 26_000; limit < 66_000; limit += 10_000) {
        await session.until(
          () => session.link.incoming.available(call.id) < 5000 || undefined,
          'use of the credit',
        );
        session.link.grant(call.id, limit);
      }
      session.link.grant(call.id, 66_000);
      mustEqual(textOf(responseOf(await session.over(call))), text, 'the echo');
    },
  },
  {
    name: 'credit/is-absolute',
    section: SECTION,
    title: 'A limit that is repeated, or lower, changes nothing.',
    async run(kit) {
      const size = 8000;
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      const call = await session.ask({ test: 'stream', parts: 6, size });
      await session.until(() => call.parts.length >= 2 || undefined, 'two parts');
      for (const limit of [4, 4, 1, 4]) session.link.grant(call.id, limit * costOf(size));
      await session.until(() => call.parts.length >= 4 || undefined, 'four parts');
      await pause(A_WHILE);
      must(call.parts.length === 4, `${call.parts.length} parts although credit allows four`);
      session.link.grant(call.id, 100_000);
      await session.over(call);
      checkParts(call.parts, 6, size);
    },
  },
  {
    name: 'credit/end-is-free',
    section: SECTION,
    title: 'End and error need no credit.',
    async run(kit) {
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      const call = await session.over(
        await session.ask({
          test: 'stream',
          parts: 2,
          size: MIN_WINDOW / 2 - BODY_CHARGE - varint(MIN_WINDOW).length,
        }),
      );
      must(call.end !== undefined, 'a reply that has used its credit does not end');
    },
  },
  {
    name: 'credit/is-granted',
    section: SECTION,
    title: 'A peer that reads grants credit, for messages and for requests larger than its window.',
    async run(kit) {
      const session = await kit.session();
      const { messages: window, stream } = session.windows;
      const size = 8000;
      const number = Math.min(400, Math.ceil((window * 2) / size) + 1);
      const texts = Array.from({ length: number }, (_, index) => said('message', index, size));
      for (const text of texts) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await checkTally(session, texts);
      const long = 'z'.repeat(Math.min(stream * 2, 2_000_000));
      const { content } = await session.answer({ test: 'echo' }, { bytes: long });
      mustEqual(content.length, long.length, 'the length of the echo');
    },
  },
  {
    name: 'credit/exceeded-by-messages',
    section: SECTION,
    title: 'Messages beyond the credit of stream 0 end the session with 4413.',
    async run(kit) {
      // In one frame, so that nothing can be granted meanwhile.
      const message = (size: number) => {
        const bytes = Buffer.alloc(size, 'm');
        return bodyFrames(Kind.MESSAGE, 0, { bytes, pieces: [size] })[0] as Uint8Array;
      };
      for (const beyond of [0, 1]) {
        const session = await kit.session();
        await session.stillWorks('the handshake');
        const most = session.link.outgoing.available(0) - BODY_CHARGE;
        if (most > 3_000_000) throw new NotApplicable('the window of stream 0 is larger than a frame');
        const bytes = message(most + beyond);
        if (beyond > 0)
          return void (await session.violate(bytes, [4413], 'a byte more than the credit of stream 0'));
        session.link.write(bytes);
        await checkTally(session, ['m'.repeat(most)]);
        await session.close();
      }
    },
  },
  {
    name: 'credit/never-opened',
    section: SECTION,
    title: 'Credit for a stream that was never opened ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await session.violate(
        frame(Kind.CREDIT, session.link.openStream().id, varint(100_000)),
        [4400],
        'credit for a stream that was never opened',
      );
    },
  },
  {
    name: 'credit/of-an-ended-stream',
    section: SECTION,
    title: 'Credit for a stream that is over is dropped.',
    async run(kit) {
      const session = await kit.session();
      const call = await session.over(await session.ask({ test: 'echo' }, { bytes: packed({}) }));
      session.link.write(frame(Kind.CREDIT, call.id, varint(1_000_000)));
      await session.stillWorks('late credit');
    },
  },
  {
    name: 'credit/context-is-charged',
    section: SECTION,
    title: 'A body in context is charged what it expands to: later ones wait for credit.',
    async run(kit) {
      const context = JSON.stringify({ max_bytes: 100_000, max_messages: 4 });
      const session = await kit.session({ link: { message_window: MIN_WINDOW }, extensions: { context } });
      session.link.grants = false;
      const text = 'What was said before. '.repeat(300);
      const call = await session.ask({ test: 'say', messages: 8, text, codec: 'CONTEXT' });
      const { messages } = session.link;
      await session.until(() => messages.length >= 2 || undefined, 'two messages');
      await pause(A_WHILE);
      // One body may go beyond the limit by what it expands to, and no other one.
      must(
        messages.length <= 3,
        `${messages.length} messages of ${text.length} bytes in ${MIN_WINDOW} of credit`,
      );
      session.link.grant(0, 1_000_000);
      await session.over(call);
      await session.until(() => messages.length >= 8 || undefined, 'eight messages');
      for (const body of messages) must(textOf(body) === text, 'another text', body.coded);
    },
  },
];
