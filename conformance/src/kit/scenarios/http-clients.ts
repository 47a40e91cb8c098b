import { setTimeout as pause } from 'node:timers/promises';
import { textOf } from '../bodies.js';
import { must, mustEqual, NotApplicable } from '../deviation.js';
import { ServedStream } from '../http-listener.js';
import type { Kit } from '../kit.js';
import { closeRecord, KEEP_ALIVE } from '../records.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { A_WHILE } from '../waiting.js';

/** Clients over HTTP. */

const SECTION = '§18 Sessions over HTTP';

interface OverHttp {
  readonly session: Session;
  readonly stream: ServedStream;
}

function streamOf({ wire: { socket } }: Pick<Session, 'wire'>): ServedStream {
  if (!(socket instanceof ServedStream)) throw new NotApplicable('the client has come over a WebSocket');
  return socket;
}

/** @throws {NotApplicable} if the client does not come over HTTP. */
async function begun(kit: Kit): Promise<OverHttp> {
  const session = await kit.session();
  await session.requires('http');
  return { session, stream: streamOf(session) };
}

const ask = (session: Session, requests: number) => session.ask({ test: 'ask', requests, size: 20 });

async function respond(session: Session, requests: number): Promise<void> {
  for (let index = 0; index < requests; index++) {
    const { id } = await session.asked(`request ${index + 1} of the client`);
    session.respond(id, { bytes: 'answer' });
  }
}

export const HTTP_CLIENTS: readonly Scenario[] = [
  {
    name: 'http/of-the-client',
    section: `${SECTION}: requests with frames`,
    tests: 'client',
    title:
      'A client asks for a stream, then sends its frames in requests that are numbered from 1, with the key.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      const asking = await ask(session, 3);
      await respond(session, 3);
      await session.over(asking);
      const text = 'abcdefghij'.repeat(5_000);
      mustEqual(textOf(await session.answer({ test: 'echo' }, { bytes: text })), text, 'the echo');
      stream.check();
    },
  },
  {
    name: 'http/one-at-a-time',
    section: `${SECTION}: numbers`,
    tests: 'client',
    title:
      'A client sends a request with frames only when the one before is answered; what comes meanwhile goes with it, in order.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      await session.stillWorks('the handshake');
      stream.hold();
      const first = await session.ask({ test: 'echo' }, { bytes: 'the first' });
      await session.over(first);
      const count = stream.numbers.length;
      const others = [];
      for (let index = 0; index < 3; index++)
        others.push(await session.ask({ test: 'echo' }, { bytes: `${index}` }));
      await pause(A_WHILE);
      mustEqual(stream.numbers.length, count, 'the number of requests while one is under way');
      stream.answer();
      for (const each of others) await session.over(each);
      stream.check();
    },
  },
  {
    name: 'http/pieces',
    section: `${SECTION}: records`,
    tests: 'client',
    title: 'The response may be cut anywhere: records arrive in pieces.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      stream.pieces = 3;
      await session.stillWorks('the handshake');
      const asking = await ask(session, 2);
      await respond(session, 2);
      await session.over(asking);
      stream.check();
    },
  },
  {
    name: 'http/keep-alive',
    section: `${SECTION}: silence`,
    tests: 'client',
    title: 'A record that keeps the connection alive says nothing to a client, with a reason either.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      for (const record of [KEEP_ALIVE, closeRecord(0, 'a test')]) {
        stream.write(record);
        await session.stillWorks('a record that keeps the connection alive');
      }
      stream.check();
    },
  },
  {
    name: 'http/failed-request',
    section: `${SECTION}: errors`,
    tests: 'client',
    title:
      'A request with frames that fails is a lost connection, which the client replaces; nothing is lost with it.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      await session.stillWorks('the handshake');
      for (const status of [409, 404, 500]) {
        streamOf(session).failsWith = status;
        const echo = await session.ask({ test: 'echo' }, { bytes: `after ${status}` });
        await session.survives(`the answer ${status} to a request`);
        await session.over(echo);
      }
      stream.check();
    },
  },
  {
    name: 'http/lost-stream',
    section: `${SECTION}: the end of a connection`,
    tests: 'client',
    title: 'A response that ends without a close is a lost connection, and the client resumes its session.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      await session.stillWorks('the handshake');
      stream.leave();
      await session.survives('a response that ended');
    },
  },
  {
    name: 'http/close-ends',
    section: `${SECTION}: the end of a connection`,
    tests: 'client',
    title: 'The close code of the last record counts as over a WebSocket.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      await session.stillWorks('the handshake');
      stream.close(4400, 'a test');
      const { hello, bytes } = await kit.greeted();
      must((hello['resume'] ?? null) === null, 'the client resumes a session that 4400 has ended', bytes);
    },
  },
  {
    name: 'http/client-closes',
    section: `${SECTION}: the end of a connection`,
    tests: 'client',
    title: 'A client that closes a connection says so in the last record of a request, with the code.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      await session.ask({ test: 'close', code: 'finished', message: 'a test' });
      await session.closedByPeer();
      await session.wire.end([1000], 'CLOSE at both ends');
      stream.check();
    },
  },
];
