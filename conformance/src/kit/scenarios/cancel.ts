import { setTimeout as pause } from 'node:timers/promises';
import { packed } from '../bodies.js';
import { type Call, isOver } from '../calls.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { bodyFrames, frame, Kind, MIN_WINDOW } from '../frames.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { toldBy } from '../told.js';
import { A_WHILE } from '../waiting.js';

/** Cancelling requests, in both directions. */

const SECTION = '§4 The link: streams';

async function cancelled(session: Session, wish: { test: string; [name: string]: unknown }): Promise<void> {
  const call = await session.ask(wish);
  await session.stillWorks('a request that waits');
  session.link.write(frame(Kind.CANCEL, call.id));
  await session.over(call, 'end or error after a cancel');
  must(call.response === undefined, 'a cancel is answered with a response');
}

export const CANCEL: readonly Scenario[] = [
  {
    name: 'cancel/reaches-the-handler',
    section: SECTION,
    title: 'A cancel reaches the handler, and is answered by end or error.',
    async run(kit) {
      const session = await kit.session();
      await cancelled(session, { test: 'hang' });
      mustEqual((await session.tally()).cancelled, 1, 'the number of handlers that were cancelled');
    },
  },
  {
    name: 'cancel/frees-the-slot',
    section: SECTION,
    title: 'A stream that was cancelled gives its slot back.',
    async run(kit) {
      const session = await kit.session();
      const rounds = Math.min(300, session.windows.maxStreams * 2 + 1);
      for (let round = 0; round < rounds; round++) {
        const call = await session.ask({ test: 'hang' });
        session.link.write(frame(Kind.CANCEL, call.id));
        await session.over(call, 'end or error after a cancel');
      }
      await session.stillWorks(`${rounds} cancels`);
    },
  },
  {
    name: 'cancel/while-parts-wait',
    section: SECTION,
    title: 'A cancel ends a reply that waits for credit.',
    async run(kit) {
      const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
      session.link.grants = false;
      const call = await session.ask({ test: 'stream', parts: 100, size: 5000 });
      await session.until(() => call.parts.length >= 3 || undefined, 'three parts');
      session.link.write(frame(Kind.CANCEL, call.id));
      await session.over(call, 'end or error after a cancel');
      must(call.parts.length < 5, 'parts beyond the credit');
      await session.stillWorks('a cancel');
    },
  },
  {
    name: 'cancel/of-the-peer',
    section: SECTION,
    title: 'The peer cancels its own request, and waits for its end.',
    async run(kit) {
      const session = await kit.session();
      const outer = await session.ask({ test: 'ask', size: 10, cancel_after: 2 });
      const asked = await session.asked('a request of the peer');
      for (const text of ['a', 'b', 'c'])
        session.link.write(...bodyFrames(Kind.CHUNK, asked.id, { bytes: text }));
      await session.until(() => asked.isCancelled || undefined, 'the cancel of the peer');
      session.end(asked.id);
      const [told] = await toldBy(session, outer);
      mustEqual(told.parts, ['a', 'b'], 'the parts that the peer has read');
    },
  },
  {
    name: 'cancel/not-the-opener',
    section: SECTION,
    title: 'A cancel of a stream that its sender has not opened ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      await session.violate(frame(Kind.CANCEL, id), [4400], 'a cancel that is not the opener’s');
    },
  },
  {
    name: 'cancel/never-opened',
    section: SECTION,
    title: 'A cancel of a stream that was never opened ends the session with 4400.',
    async run(kit) {
      const session = await kit.session();
      await session.answer({ test: 'echo' }, { bytes: packed({}) });
      await session.violate(frame(Kind.CANCEL, session.link.openStream().id), [4400], 'a cancel');
    },
  },
  {
    name: 'cancel/keeps-the-slot-until-its-end',
    section: SECTION,
    title: 'A request that was cancelled counts as open until the peer has answered the cancel.',
    async run(kit) {
      const session = await kit.session();
      const most = session.streamsToFill();
      const calls = [];
      for (let index = 0; index < most; index++) calls.push(await session.ask({ test: 'hang', stays: true }));
      const first = calls[0] as Call;
      await session.ping();
      session.link.write(frame(Kind.CANCEL, first.id));
      await session.ping();
      await pause(A_WHILE);
      if (isOver(first)) throw new NotApplicable('the peer ends at once what is cancelled');
      const metadata = packed({ test: 'echo' });
      const { id } = session.link.openStream();
      const beyond = bodyFrames(Kind.REQUEST, id, { bytes: '', metadata });
      await session.violate(beyond, [4400], 'a stream in the place of one that has not ended');
    },
  },
  {
    name: 'cancel/cancelled-keeps-its-slot',
    section: SECTION,
    title: 'A request that the peer has cancelled counts as open until it has ended.',
    async run(kit) {
      const session = await kit.session({ link: { max_streams: 1 } });
      const first = await session.ask({ test: 'ask', size: 10, cancel_after: 1 });
      const asked = await session.asked('a request of the peer');
      session.link.write(...bodyFrames(Kind.CHUNK, asked.id, { bytes: 'one' }));
      await session.until(() => asked.isCancelled || undefined, 'the cancel of the peer');
      const second = await session.ask({ test: 'ask', size: 10 });
      await pause(A_WHILE);
      must(session.link.asked.length === 0, 'a second stream although the first one has not ended');
      session.end(asked.id);
      await session.over(first);
      // An end may refuse what goes beyond the limit, or keep it until a stream is free.
      const next = await session.until(
        () => session.link.asked.shift() ?? (isOver(second) ? 'refused' : undefined),
        'a request of the peer, or its refusal',
      );
      if (next !== 'refused') session.respond(next.id, { bytes: 'answer' });
      await session.over(second);
      await session.stillWorks('a cancel');
    },
  },
];
