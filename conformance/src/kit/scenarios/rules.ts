import { packed } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, frame, Kind, MIN_WINDOW, varint } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { toldBy } from '../told.js';
import { checkTally } from './messages.js';

/** Rules of the link that are about bounds, errors and what is left over. */

const LINK = '§4 The link';

const ends = (
  name: string,
  title: string,
  codes: readonly number[],
  bytes: (session: Session) => Uint8Array | readonly Uint8Array[] | Promise<Uint8Array>,
): Scenario => ({
  name: `rules/${name}`,
  section: LINK,
  title,
  async run(kit) {
    const session = await kit.session();
    await session.stillWorks('the handshake');
    await session.violate(await bytes(session), codes, title);
  },
});

/** Requests whose answers wait for credit. */
async function waiting(kit: Kit): Promise<Session> {
  const session = await kit.session({ link: { stream_window: MIN_WINDOW } });
  const most = session.streamsToFill();
  session.link.grants = false;
  for (let index = 0; index < most; index++)
    await session.ask({ test: 'stream', parts: 1, size: MIN_WINDOW + 10 });
  await session.until(
    () =>
      [...session.link.calls.keys()].every((id) => session.link.incoming.available(id) < 5_000) || undefined,
    'the first frames of all answers',
  );
  return session;
}

export const RULES: readonly Scenario[] = [
  ends(
    'bytes-after-ack',
    'Bytes after the count of an acknowledgement end the session with 4400.',
    [4400],
    () => frame(Kind.ACK, 0, [0]),
  ),
  ends('bytes-after-credit', 'Bytes after the limit of credit end the session with 4400.', [4400], () =>
    frame(Kind.CREDIT, 0, varint(100_000_000), [0]),
  ),
  ends(
    'bytes-after-cancel',
    'Bytes after the stream of a cancel end the session with 4400.',
    [4400],
    async (session) => {
      const { id } = await session.ask({ test: 'hang' });
      return frame(Kind.CANCEL, id, [0]);
    },
  ),
  ends(
    'large-error',
    'An error frame of more than 16 KiB ends the session with 4413.',
    [4413],
    async (session) => {
      await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      return frame(Kind.ERROR, id, packed({ code: 'large', message: 'x'.repeat(17_000) }));
    },
  ),
  {
    name: 'rules/lower-count',
    section: LINK,
    title: 'A count below an earlier one is ignored.',
    async run(kit) {
      const session = await kit.session();
      await session.answer({ test: 'say', messages: 10, size: 20 });
      session.link.acknowledge();
      session.link.write(frame(Kind.ACK, 1));
      await session.stillWorks('a lower count');
      session.cut();
      await session.stillWorks('a lost connection after a lower count');
    },
  },
  {
    name: 'rules/slot-until-written',
    section: LINK,
    title: 'A stream keeps its slot until its answer is written.',
    async run(kit) {
      const session = await waiting(kit);
      const one = session.link.openStream().id;
      const metadata = packed({ test: 'echo' });
      await session.violate(
        bodyFrames(Kind.REQUEST, one, { bytes: '', metadata }),
        [4400],
        'one stream more than max_streams while answers wait',
      );
    },
  },
  {
    name: 'rules/slot-is-given-back',
    section: LINK,
    title: 'A stream whose answer is written gives its slot back.',
    async run(kit) {
      const session = await waiting(kit);
      session.link.grants = true;
      for (const [id] of session.link.calls) session.link.grant(id, MIN_WINDOW * 4);
      for (const call of session.link.calls.values()) await session.over(call);
      await session.stillWorks('answers that have waited');
    },
  },
  {
    name: 'rules/kinds-of-errors',
    section: '§4 Error frames',
    title: 'An error of the application has retryable, true or false; an error of the protocol has none.',
    async run(kit) {
      const session = await kit.session();
      for (const retryable of [true, false]) {
        const wish = { test: 'fail', code: 'timeout', message: 'of the application', retryable };
        const { error } = await session.over(await session.ask(wish));
        mustEqual(error?.['retryable'], retryable, 'retryable of an error of the application');
      }
      const call = session.link.openStream();
      session.link.write(...bodyFrames(Kind.REQUEST, call.id, { bytes: 'x', metadata: packed([1]) }));
      const { error } = await session.over(call);
      must(error !== undefined && !('retryable' in error), 'an error of the protocol has retryable');
    },
  },
  {
    name: 'rules/hides-failures',
    section: '§4 Error frames',
    title: 'The text of an unexpected failure is not told.',
    async run(kit) {
      const session = await kit.session();
      const { error } = await session.over(
        await session.ask({ test: 'throw', message: 'a secret of the host' }),
      );
      mustEqual(error?.['code'], 'internal', 'the code');
      must(!JSON.stringify(error).includes('secret'), 'the text of the failure is told');
      await session.stillWorks('a handler that failed');
    },
  },
  {
    name: 'rules/wrong-token-disturbs-nothing',
    section: '§3 Handshake',
    tests: 'server',
    title: 'A HELLO with a wrong token does not disturb the connection of the session that it names.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      await kit.offerToResume(session, { resume: { token: 'not-the-token' } });
      await session.stillWorks('a wrong token on another connection');
      await checkTally(session, []);
    },
  },
  {
    name: 'rules/reads-until-close',
    section: '§3 Closing',
    title: 'An end that closes continues to read and to acknowledge until the CLOSE of the peer.',
    async run(kit) {
      const session = await kit.session();
      await session.ask({ test: 'close', code: 'finished', message: '' });
      await session.controlOf('CLOSE');
      for (let index = 0; index < 3; index++)
        await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'late' });
      await session.until(
        () => session.link.confirmed >= session.link.written.length || undefined,
        'the acknowledgement of messages after CLOSE',
      );
      session.link.acknowledge();
      session.wire.send(session.control('CLOSE', { reason: 'NORMAL', message: '' }));
      await session.wire.end([1000], 'CLOSE at both ends');
    },
  },
  {
    name: 'rules/closing-is-bounded',
    section: '§3 Closing',
    title: 'An end that has sent CLOSE ends after a bounded time, although the peer does not answer.',
    async run(kit) {
      const session = await kit.session();
      await session.ask({ test: 'close', code: 'finished', message: '' });
      await session.controlOf('CLOSE');
      await session.wire.end(undefined, 'a CLOSE that was not answered', 15_000);
    },
  },
  {
    name: 'rules/cause-within-123-bytes',
    section: '§14 Errors',
    title: 'A close has a reason of at most 123 bytes of UTF-8, and not the code 1000 for a violation.',
    async run(kit) {
      const session = await kit.session();
      await session.stillWorks('the handshake');
      const { code, reason } = await session.violate(
        bodyFrames(Kind.MESSAGE, 2 ** 20, { bytes: 'ü'.repeat(400) }),
        [4400],
        'a violation',
      );
      must(
        code !== 1000 && Buffer.byteLength(reason) <= 123 && !reason.includes('\uFFFD'),
        `the reason is "${reason}"`,
      );
    },
  },
  {
    name: 'rules/undecodable-reply',
    section: '§14 Errors of decoding',
    title: 'A reply that cannot be decoded fails the request at its requester; its sender gets no error.',
    async run(kit) {
      const session = await kit.session({ algorithms: ['BROTLI', 'NONE'] });
      const outer = await session.ask({ test: 'ask', size: 10 });
      const { id } = await session.asked('a request of the peer');
      session.link.write(
        ...bodyFrames(Kind.RESPONSE, id, { codec: 3, bytes: Uint8Array.of(0xff, 1), expanded: 10 }),
      );
      session.link.answered(id);
      const [{ error }] = await toldBy(session, outer);
      must(error !== undefined, 'a reply that cannot be decoded has not failed the request');
      await session.stillWorks('a reply that cannot be decoded');
    },
  },
];
