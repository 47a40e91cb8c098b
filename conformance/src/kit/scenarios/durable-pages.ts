import { acceptAnew, askAnew, askedAnew } from '../anew.js';
import { type Fields, textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { Kind } from '../frames.js';
import type { Kit } from '../kit.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { checkTally } from './messages.js';
import { said } from './streams.js';

/** Pages with a durable session that are loaded again. */

const SECTION = '§6 A durable session and a page that is loaded again';

const page = (kit: Kit): Promise<Session> => kit.session({ extensions: { durable: '1', rebuild: '1' } });

/** The counts that the page of the kit leaves to the next one. */
const haveOf = ({ link }: Session, messages: number, written: number): Fields => ({
  messages,
  sent: 0,
  written,
  opened: link.last.own,
  heard: link.last.peer,
  streams: [],
});

export const DURABLE_PAGES: readonly Scenario[] = [
  {
    name: 'durable-pages/goes-on',
    section: SECTION,
    tests: 'server',
    title: 'The next page gets what the one before had not, and its messages are counted on.',
    async run(kit) {
      const session = await page(kit);
      session.link.acknowledges = false;
      const texts = ['one', 'two', 'three'];
      for (const text of texts) await session.link.writeBody(Kind.MESSAGE, 0, { bytes: text });
      await checkTally(session, texts);
      await session.answer({ test: 'say', messages: 4, size: 20 });
      await session.until(() => session.link.messages.length >= 4 || undefined, 'four messages');
      session.lose();
      const have = haveOf(session, 2, 3);
      const { wire, resume, rebuilt, bytes } = await askAnew(kit, session, {
        rebuild: true,
        received: 0,
        have,
      });
      mustEqual(resume.recovered, true, 'resume.recovered', bytes);
      mustEqual((rebuilt['kept'] as Fields | undefined)?.['handled'], 3, 'kept.handled', bytes);
      session.beginAnew(wire);
      await session.until(() => session.link.messages.length >= 2 || undefined, 'two messages again');
      mustEqual(
        session.link.messages.map(textOf),
        [said('message', 3, 20), said('message', 4, 20)],
        'the messages',
      );
      await session.link.writeBody(Kind.MESSAGE, 0, { bytes: 'four' });
      await checkTally(session, [...texts, 'four']);
    },
  },
  {
    name: 'durable-pages/without-have',
    section: SECTION,
    tests: 'server',
    title: 'A page without have, or with requests in it, is refused with no_state.',
    async run(kit) {
      for (const change of [undefined, { streams: [1, 0, 0] }, { messages: 2 ** 21 + 5 }]) {
        const session = await page(kit);
        await session.answer({ test: 'echo' }, { bytes: 'x' });
        session.lose();
        const have = change === undefined ? undefined : { ...haveOf(session, 0, 0), ...change };
        const { resume, bytes } = await askAnew(kit, session, { rebuild: true, received: 0, have });
        mustEqual([resume.recovered, resume.reason], [false, 'no_state'], 'recovered and reason', bytes);
      }
    },
  },
  {
    name: 'durable-pages/of-the-client',
    section: SECTION,
    tests: 'client',
    title: 'A page that is loaded again says what the one before had, and needs what the server has kept.',
    async run(kit) {
      const session = await page(kit);
      await session.requires('reload');
      await session.answer({ test: 'say', messages: 3, size: 20 });
      await session.until(() => session.link.messages.length >= 3 || undefined, 'three messages');
      session.link.acknowledge();
      await session.stillWorks('an acknowledgement');
      await session.ask({ test: 'reload' });
      await session.wire.end(undefined, 'the page was loaded again');
      const { wire, resume, bytes } = await askedAnew(kit, session);
      mustEqual(resume['rebuild'], true, 'resume.rebuild', bytes);
      const { sent, written, streams } = (resume['have'] ?? {}) as Fields;
      mustEqual([written, streams], [3, []], 'have.written and have.streams', bytes);
      must(Number(sent) <= 3, `have.sent is ${String(sent)}`, bytes);
      acceptAnew(session, wire);
      await wire.end([4400], 'an ACCEPT without kept');
    },
  },
];
