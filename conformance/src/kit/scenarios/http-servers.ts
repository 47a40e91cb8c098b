import { randomBytes } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { textOf } from '../bodies.js';
import { must, mustEqual } from '../deviation.js';
import { join, Kind } from '../frames.js';
import { answerTo, DialedStream, post, requestTo } from '../http-dialer.js';
import { controlOn, envelope, type Kit, saidOn } from '../kit.js';
import { helloOf } from '../offers.js';
import { bodyOf, KEEP_ALIVE, recordOf } from '../records.js';
import type { Scenario } from '../scenario.js';
import { responseOf, type Session } from '../session.js';
import { A_WHILE } from '../waiting.js';
import { checkParts, said } from './streams.js';

/** Servers over HTTP. */

const SECTION = '§18 Sessions over HTTP';
const LONG = 'abcdefghij'.repeat(30_000);
const ELSEWHERE = 'https://elsewhere.example';

interface OverHttp {
  readonly session: Session;
  readonly stream: DialedStream;
}

/** @throws {NotApplicable} if the server does not say that it serves sessions over HTTP. */
async function requires(kit: Kit, ...abilities: readonly string[]): Promise<void> {
  const session = await kit.session();
  for (const ability of ['http', ...abilities]) await session.requires(ability);
  kit.isOverHttp = true;
}

/** A session over HTTP on which the kit has sent nothing but HELLO. */
async function begun(kit: Kit): Promise<OverHttp> {
  await requires(kit);
  const session = await kit.session();
  const { socket } = session.wire;
  if (!(socket instanceof DialedStream)) throw new Error('the kit has opened no stream');
  return { session, stream: socket };
}

async function taken({ stream }: OverHttp, body: Uint8Array, what: string): Promise<void> {
  mustEqual((await stream.post(body)).status, 204, `the answer to ${what}`);
}

/** How many PONG have come until the session works. */
async function pongs({ session }: OverHttp, why: string): Promise<number> {
  await session.stillWorks(why);
  return session.controls.filter(({ type }) => type === 'PONG').length;
}

/** All of a body but its last byte. */
function writeButLast(request: ClientRequest, body: Uint8Array): void {
  request.setHeader('content-length', body.length);
  request.write(body.subarray(0, -1));
}

const hello = (): Uint8Array => envelope('HELLO', null, helloOf({}));

export const HTTP_SERVERS: readonly Scenario[] = [
  {
    name: 'http/opens',
    section: `${SECTION}: the stream`,
    tests: 'server',
    title:
      'A stream begins with its key, and ACCEPT follows; its response has no length, and nothing may keep it.',
    async run(kit) {
      await requires(kit);
      const { stream, wire } = await kit.stream([hello()]);
      const { fields } = await controlOn(wire, 'ACCEPT');
      const { headers } = stream.answer;
      must(stream.key.length >= 16, `the key has ${stream.key.length} bytes`, stream.key);
      mustEqual(headers['content-length'], undefined, 'Content-Length');
      const kept = String(headers['cache-control']);
      must(/no-store/.test(kept) && /no-transform/.test(kept), `Cache-Control is ${kept}`);
      wire.send(envelope('PING', fields['session_id'] as string, {}));
      await saidOn(wire, 'PONG');
    },
  },
  {
    name: 'http/waits-for-hello',
    section: `${SECTION}: the stream`,
    tests: 'server',
    title:
      'A server answers the request for a stream when that has arrived whole, and takes HELLO from the first request with frames as well.',
    async run(kit) {
      await requires(kit);
      const request = requestTo(kit.dialer.url, 'stream');
      const body = join(recordOf(hello()), KEEP_ALIVE);
      writeButLast(request, body);
      let isAnswered = false;
      request.once('response', () => {
        isAnswered = true;
      });
      await pause(A_WHILE);
      must(!isAnswered, 'a stream is answered before its request has arrived');
      const answered = answerTo(request, kit.door.timeoutMs);
      request.end(body.subarray(-1));
      mustEqual((await answered).status, 200, 'the answer to the request for a stream');
      request.destroy();
      const { wire } = await kit.stream();
      wire.send(hello());
      await controlOn(wire, 'ACCEPT');
    },
  },
  {
    name: 'http/both-ways',
    section: `${SECTION}: requests with frames`,
    tests: 'server',
    title: 'Frames of any size go both ways in order, several in one request.',
    async run(kit) {
      const { session } = await begun(kit);
      const calls = [];
      for (let index = 1; index <= 5; index++)
        calls.push(await session.ask({ test: 'stream', parts: 5 + index, size: 40 }));
      const echo = await session.over(await session.ask({ test: 'echo' }, { bytes: LONG }));
      must(textOf(responseOf(echo)) === LONG, 'the echo is another text');
      for (const [index, call] of calls.entries()) {
        await session.over(call);
        checkParts(call.parts, 6 + index, 40);
      }
    },
  },
  {
    name: 'http/any-pieces',
    section: `${SECTION}: records`,
    tests: 'server',
    title: 'A record may arrive in pieces, and one that keeps the connection alive says nothing.',
    async run(kit) {
      const over = await begun(kit);
      const { session, stream } = over;
      const number = ++stream.number;
      const ping = session.control('PING');
      const body = join(bodyOf(number, stream.key, ping), KEEP_ALIVE, recordOf(ping));
      const request = requestTo(stream.url, 'frames');
      const answered = answerTo(request, kit.door.timeoutMs);
      for (let at = 0; at < body.length; at += 3) {
        request.write(body.subarray(at, at + 3));
        await pause(1);
      }
      request.end();
      mustEqual((await answered).status, 204, 'the answer to a request in pieces');
      mustEqual(await pongs(over, 'a request in pieces'), 2, 'the number of PONG');
    },
  },
  {
    name: 'http/repeated-number',
    section: `${SECTION}: numbers`,
    tests: 'server',
    title: 'A request whose number has been taken gets 204, and its frames are dropped.',
    async run(kit) {
      const over = await begun(kit);
      const { session, stream } = over;
      const body = bodyOf(++stream.number, stream.key, session.control('PING'));
      for (const what of ['a request', 'the same request again', 'the same request a third time'])
        await taken(over, body, what);
      mustEqual(await pongs(over, 'a request that came again'), 1, 'the number of PONG');
    },
  },
  {
    name: 'http/out-of-order',
    section: `${SECTION}: numbers`,
    tests: 'server',
    title:
      'A request whose number is too large, or that comes while another one is under way, gets 409, and its frames are dropped.',
    async run(kit) {
      const over = await begun(kit);
      const { session, stream } = over;
      const [next, ping] = [stream.number + 1, session.control('PING')];
      const early = await stream.post(bodyOf(next + 1, stream.key, ping));
      mustEqual(early.status, 409, 'the answer to a request whose number is too large');
      const request = requestTo(stream.url, 'frames');
      const body = bodyOf(next, stream.key, ping);
      writeButLast(request, body);
      await pause(A_WHILE);
      const beside = await stream.post(bodyOf(next, stream.key, ping));
      mustEqual(beside.status, 409, 'the answer to a request beside another one');
      const answered = answerTo(request, kit.door.timeoutMs);
      request.end(body.subarray(-1));
      mustEqual((await answered).status, 204, 'the answer to the request that was under way');
      stream.number = next;
      mustEqual(await pongs(over, 'requests out of order'), 1, 'the number of PONG');
    },
  },
  {
    name: 'http/unknown-key',
    section: `${SECTION}: requests with frames`,
    tests: 'server',
    title: 'A request with the key of no stream gets 404, and so does one without a key.',
    async run(kit) {
      const over = await begun(kit);
      const { session, stream } = over;
      const forged = Uint8Array.from(stream.key, (byte, at) => (at === 0 ? byte ^ 1 : byte));
      for (const body of [bodyOf(1, forged, session.control('PING')), new Uint8Array()])
        mustEqual(
          (await stream.post(body)).status,
          404,
          'the answer to a request without a key that is known',
        );
      mustEqual(await pongs(over, 'a request with another key'), 0, 'the number of PONG');
    },
  },
  {
    name: 'http/half-a-request',
    section: `${SECTION}: requests with frames`,
    tests: 'server',
    title:
      'A request that breaks off has given its whole frames, and its connection is lost; the session is not.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      const ping = session.control('PING');
      const body = bodyOf(++stream.number, stream.key, ping, ping);
      const request = requestTo(stream.url, 'frames');
      writeButLast(request, body);
      await session.controlOf('PONG');
      request.destroy();
      await session.survives('a request that broke off');
    },
  },
  {
    name: 'http/no-records',
    section: `${SECTION}: records`,
    tests: 'server',
    title: 'A request that ends inside a record gets 400, and ends its connection with 4400.',
    async run(kit) {
      const { session, stream } = await begun(kit);
      const body = bodyOf(++stream.number, stream.key, session.control('PING'));
      const answer = await stream.post(body.subarray(0, -1));
      mustEqual(answer.status, 400, 'the answer to a request that ends inside a record');
      await session.wire.end([4400], 'a request that ends inside a record');
    },
  },
  {
    name: 'http/closed-by-the-server',
    section: `${SECTION}: the end of a connection`,
    tests: 'server',
    title: 'A server that closes a connection says so in the last record, with the code.',
    async run(kit) {
      const { session } = await begun(kit);
      await session.stillWorks('the handshake');
      await session.violate(Uint8Array.of(0x60, 0, 0), [4400], 'a frame that is none');
    },
  },
  {
    name: 'http/closed-by-the-client',
    section: `${SECTION}: the end of a connection`,
    tests: 'server',
    title: 'A client that closes a connection says so in a record, and the code counts as over a WebSocket.',
    async run(kit) {
      const { session } = await begun(kit);
      await session.stillWorks('the handshake');
      session.wire.close(4400, 'a test');
      await session.wire.end([4400], 'a close of the client');
      const { ticket, bytes } = await kit.offerToResume(session);
      must(!ticket.recovered, 'a session is resumed that its client has ended with 4400', bytes);
    },
  },
  {
    name: 'http/resumes',
    section: `${SECTION}: the end of a connection`,
    tests: 'server',
    title:
      'A session whose stream is lost continues over another one, over a WebSocket, and over HTTP again.',
    async run(kit) {
      const { session } = await begun(kit);
      for (const isOverHttp of [true, false, true]) {
        const stream = await session.ask({ test: 'stream', parts: 30, size: 50 });
        await session.link.writeBody(Kind.MESSAGE, 0, { bytes: said('message', 1, 40) });
        kit.isOverHttp = isOverHttp;
        session.cut();
        await session.over(stream);
        checkParts(stream.parts, 30, 50);
      }
      mustEqual((await session.tally()).messages, 3, 'the number of messages');
    },
  },
  {
    name: 'http/same-hello',
    section: `${SECTION}: a request that comes again`,
    tests: 'server',
    title: 'A request for a stream that comes again continues the session of the first one.',
    async run(kit) {
      await requires(kit, 'nonce');
      const again = envelope('HELLO', null, { ...helloOf({}), nonce: randomBytes(16) });
      const ids = [];
      for (let times = 0; times < 2; times++) {
        const { wire } = await kit.stream([again]);
        ids.push((await controlOn(wire, 'ACCEPT')).fields['session_id']);
      }
      mustEqual(ids[1], ids[0], 'session_id');
    },
  },
  {
    name: 'http/refuses',
    section: `${SECTION}: the two requests`,
    tests: 'server',
    title: 'Other methods get 405, other types and codings of a body 415.',
    async run(kit) {
      await requires(kit);
      for (const name of ['stream', 'frames']) {
        const { url, timeoutMs } = kit.dialer;
        const answer = await post(url, name, { method: 'PUT' }, timeoutMs);
        mustEqual([answer.status, answer.headers['allow']], [405, 'POST'], 'the answer to PUT, and Allow');
        for (const headers of [{ 'content-type': 'application/json' }, { 'content-encoding': 'gzip' }])
          mustEqual(
            (await post(url, name, { body: recordOf(hello()), headers }, timeoutMs)).status,
            415,
            `the answer to ${JSON.stringify(headers)}`,
          );
      }
    },
  },
  {
    name: 'http/other-origin',
    section: `${SECTION}: pages of other origins`,
    tests: 'server',
    title:
      'Pages of other origins are refused with REJECT and 4403, cookies count with an origin alone, and a key is worth nothing to another page.',
    async run(kit) {
      const over = await begun(kit);
      const { session, stream } = over;
      for (const headers of [{ origin: ELSEWHERE }, { cookie: 'a=b' }]) {
        const { stream: refused, wire } = await kit.stream([hello()], headers);
        await controlOn(wire, 'REJECT');
        await wire.end([4403], `a request with ${JSON.stringify(headers)}`);
        const readers = refused.answer.headers['access-control-allow-origin'];
        mustEqual(readers, undefined, 'Access-Control-Allow-Origin for a page that is refused');
      }
      const body = bodyOf(stream.number + 1, stream.key, session.control('PING'));
      const stolen = await stream.post(body, { origin: ELSEWHERE });
      mustEqual(stolen.status, 403, 'the answer to a request of another page');
      mustEqual(await pongs(over, 'a request of another page'), 0, 'the number of PONG');
    },
  },
];
