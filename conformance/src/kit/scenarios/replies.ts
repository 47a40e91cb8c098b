import { type Fields, packed, textOf } from '../bodies.js';
import type { Call } from '../calls.js';
import { must, mustEqual } from '../deviation.js';
import { bodyFrames, frame, Kind } from '../frames.js';
import type { Kit } from '../kit.js';
import { jsonIn } from '../members.js';
import type { Offer } from '../offers.js';
import type { Scenario } from '../scenario.js';
import type { Session } from '../session.js';
import { toldOfOne } from '../told.js';
import { checkParts, said } from './streams.js';

/** Replies that a server keeps, and others follow. */

const SECTION = '§12 Kept replies';
const SIZE = 20;

const reader = (kit: Kit, offer: Offer = {}): Promise<Session> =>
  kit.session({ ...offer, extensions: { replies: '{}', ...offer.extensions } });

/** A request to `@replies`. */
async function wants(session: Session, metadata: Fields): Promise<Call> {
  const call = session.link.openStream();
  const agent = session.numberOf('@replies');
  await session.link.writeBody(Kind.REQUEST, call.id, { bytes: '', agent, metadata: packed(metadata) });
  return call;
}

/** The entry `@reply` of a reply, wherever it came. */
const keptIn = ({ parts, response }: Call): Fields | undefined =>
  [...parts, ...(response === undefined ? [] : [response])]
    .map(({ metadata }) => metadata?.['@reply'] as Fields | undefined)
    .find((kept) => kept !== undefined);

/** Parts that count: one that only carries metadata does not. */
const counted = ({ parts }: Call) =>
  parts.filter(({ content, metadata }) => content.length > 0 || metadata === undefined);

/** A reply that the server keeps, once its first part is there. */
async function kept(session: Session, wish: Fields): Promise<{ call: Call; id: string }> {
  const call = await session.ask({ test: 'stream', parts: 8, size: SIZE, keep: true, ...wish });
  const id = await session.until(() => keptIn(call)?.['id'], 'the ID of the kept reply');
  must(
    typeof id === 'string' && /^reply_[A-Za-z0-9]{22}$/.test(id),
    `${JSON.stringify(id)} is not the ID of a reply`,
  );
  return { call, id };
}

/** Reads a kept reply to its end, and checks what comes before its parts. */
async function follow(session: Session, follow: Fields): Promise<Call> {
  const call = await session.over(await wants(session, { follow }));
  if (call.error !== undefined) return call;
  const first = call.parts[0];
  must(first !== undefined, 'a kept reply has no first body');
  must(first.content.length === 0, 'the first body is not empty', first.coded);
  const told = first.metadata?.['@reply'] as Fields | undefined;
  mustEqual(told?.['after'] ?? 0, follow['after'] ?? 0, 'after');
  return call;
}

/** Parts after one, up to the end. */
function checkFollowed(call: Call, after: number, number: number): void {
  must(call.end !== undefined, `the kept reply ended with ${JSON.stringify(call.error ?? 'a response')}`);
  const expected = Array.from({ length: number - after }, (_, index) =>
    said('part', after + index + 1, SIZE),
  );
  mustEqual(counted(call).map(textOf), expected, 'the parts');
}

export const REPLIES: readonly Scenario[] = [
  {
    name: 'replies/is-told',
    section: SECTION,
    tests: 'server',
    title: 'A requester that agreed on replies is told the ID; another one is not.',
    async run(kit) {
      const session = await reader(kit);
      const { call } = await kept(session, {});
      await session.over(call);
      mustEqual(counted(call).map(textOf).length, 8, 'the number of parts');
      const other = await kit.session();
      const plain = await other.over(await other.ask({ test: 'stream', parts: 8, size: SIZE, keep: true }));
      checkParts(plain.parts, 8, SIZE);
      must(keptIn(plain) === undefined, 'a requester without replies is told about the kept reply');
    },
  },
  {
    name: 'replies/followed',
    section: SECTION,
    tests: 'server',
    title: 'Another session of the principal reads a kept reply from any part, while it runs and afterwards.',
    async run(kit) {
      const [session, other] = [await reader(kit), await reader(kit)];
      const { call, id } = await kept(session, { pace: 20 });
      const [late, all] = await Promise.all([follow(other, { id, after: 3 }), follow(other, { id })]);
      checkFollowed(late, 3, 8);
      checkFollowed(all, 0, 8);
      await session.over(call);
      for (const after of [0, 7, 8]) checkFollowed(await follow(other, { id, after }), after, 8);
    },
  },
  {
    name: 'replies/outlives-its-requester',
    section: SECTION,
    tests: 'server',
    title: 'A kept reply continues when the session of its requester has closed.',
    async run(kit) {
      const session = await reader(kit);
      const { id } = await kept(session, { pace: 20 });
      await session.close();
      const other = await reader(kit);
      checkFollowed(await follow(other, { id }), 0, 8);
    },
  },
  {
    name: 'replies/through-cuts',
    section: SECTION,
    tests: 'server',
    title: 'A follower whose connection is lost gets every part once and in order.',
    async run(kit) {
      const [session, other] = [await reader(kit), await reader(kit)];
      const { id } = await kept(session, { pace: 10 });
      let seen = 0;
      other.link.onCounted = () => {
        const { received } = other.link;
        if (received <= seen) return;
        seen = received;
        other.cut(1);
      };
      checkFollowed(await follow(other, { id }), 0, 8);
      must(other.cuts > 2, `only ${other.cuts} cuts`);
    },
  },
  {
    name: 'replies/by-name',
    section: SECTION,
    tests: 'server',
    title: 'A name means the newest reply of its owner with that name.',
    async run(kit) {
      const session = await reader(kit);
      const name = `chat-${session.id.slice(-8)}`;
      const first = await kept(session, { keep: name, parts: 2 });
      await session.over(first.call);
      const second = await kept(session, { keep: name, parts: 4 });
      await session.over(second.call);
      checkFollowed(await follow(session, { name }), 0, 4);
      checkFollowed(await follow(session, { id: first.id }), 0, 2);
    },
  },
  {
    name: 'replies/unknown',
    section: SECTION,
    tests: 'server',
    title: 'A reply that does not exist and one of another principal fail alike.',
    async run(kit) {
      const session = await reader(kit);
      await session.requires('credentials');
      const { id } = await kept(session, { pace: 20 });
      const stranger = await reader(kit, { token: 'stranger' });
      const hidden = (await follow(stranger, { id })).error;
      const missing = (await follow(stranger, { id: `${id.slice(0, -1)}${id.endsWith('x') ? 'y' : 'x'}` }))
        .error;
      mustEqual(hidden?.['code'], 'unknown_reply', 'the code of the error');
      mustEqual(JSON.stringify(hidden), JSON.stringify(missing), 'the error for a reply that is hidden');
      const stop = await stranger.over(await wants(stranger, { stop: { id } }));
      mustEqual(stop.error?.['code'], 'unknown_reply', 'the code of the error of stop');
      checkFollowed(await follow(session, { id }), 0, 8);
    },
  },
  {
    name: 'replies/follower-leaves',
    section: SECTION,
    tests: 'server',
    title: 'A cancel of a follower ends the following and nothing else.',
    async run(kit) {
      const [session, other] = [await reader(kit), await reader(kit)];
      const { call, id } = await kept(session, { pace: 20 });
      const following = await wants(other, { follow: { id } });
      await other.until(() => following.parts.length > 1 || undefined, 'the first part');
      other.link.write(frame(Kind.CANCEL, following.id));
      await other.over(following, 'end or error after a cancel');
      await session.over(call);
      mustEqual(counted(call).length, 8, 'the parts of the requester');
    },
  },
  {
    name: 'replies/stop',
    section: SECTION,
    tests: 'server',
    title: 'Stopping ends the handler, and the reply with cancelled for every reader.',
    async run(kit) {
      const [session, other] = [await reader(kit), await reader(kit)];
      const { call, id } = await kept(session, { pace: 20, parts: 500 });
      const following = await wants(other, { follow: { id } });
      const stop = await other.over(await wants(other, { stop: { id } }));
      must(stop.response !== undefined, `stop was answered with ${JSON.stringify(stop.error ?? 'parts')}`);
      mustEqual((await other.over(following)).error?.['code'], 'cancelled', 'the error of the follower');
      const ended = await session.over(call);
      mustEqual(ended.error?.['code'], 'cancelled', 'the error of the requester');
    },
  },
  {
    name: 'replies/list',
    section: SECTION,
    tests: 'server',
    title: 'The list names the replies that the session may follow, newest first.',
    async run(kit) {
      const token = `lister-${Date.now()}`;
      const session = await reader(kit, { token });
      await session.requires('credentials');
      const first = await kept(session, { keep: 'first' });
      await session.over(first.call);
      const second = await kept(session, { pace: 50 });
      const list = await session.over(await wants(session, { list: {} }));
      const all = list.parts.flatMap((part) => jsonIn(part) as Fields[]);
      mustEqual(
        all.map(({ id, name, own, state }) => [id, name ?? null, own, state]),
        [
          [second.id, null, true, 'running'],
          [first.id, 'first', true, 'complete'],
        ],
        'ID, name, own and state',
      );
      mustEqual(all[1]?.['parts'], 8, 'the number of parts');
    },
  },
  {
    name: 'replies/as-coded',
    section: SECTION,
    tests: 'server',
    title: 'A part is passed on as it was coded to a follower that has its codec, and coded again to others.',
    async run(kit) {
      const algorithms = ['BROTLI', 'NONE'];
      const context = '{"max_bytes":65536,"max_messages":8}';
      const size = 2000;
      const texts = Array.from({ length: 8 }, (_, index) => said('part', index + 1, size));
      const both = await reader(kit, { algorithms });
      const { call, id } = await kept(both, { size });
      await both.over(call);
      const same = counted(await follow(await reader(kit, { algorithms }), { id }));
      const coded = (bodies: typeof same) =>
        bodies.map((body) => [body.codec, Buffer.from(body.coded).toString('hex')]);
      mustEqual(coded(same), coded(counted(call)), 'the parts as they were coded for the requester');
      const plain = counted(await follow(await reader(kit), { id }));
      mustEqual(plain.map(textOf), texts, 'the parts for a follower without the codec');
      // A part that was coded in the context of its requester needs none of it at a follower.
      const inContext = await kit.session({ extensions: { replies: '{}', context } });
      const other = await kept(inContext, { size });
      await inContext.over(other.call);
      for (const extensions of [{}, { context }]) {
        const follower = await reader(kit, { extensions });
        const parts = counted(await follow(follower, { id: other.id }));
        mustEqual(parts.map(textOf), texts, 'the parts of a reply in context');
      }
    },
  },
  {
    name: 'replies/unknown-member',
    section: SECTION,
    tests: 'server',
    title:
      'A wish beside the members of the table is refused with unsupported, so that no reader begins at 0 by mistake.',
    async run(kit) {
      const session = await reader(kit);
      const { id } = await kept(session, {});
      for (const wish of [
        { follow: { id }, after: 3 },
        { follow: { id, from: 3 } },
        { follow: { id, after: -1 } },
      ]) {
        const { error } = await session.over(await wants(session, wish));
        mustEqual(error?.['code'], 'unsupported', `the error for ${JSON.stringify(wish)}`);
      }
    },
  },
  {
    name: 'replies/only-its-name',
    section: '§11 Agents',
    tests: 'server',
    title: 'With replies alone, another name than @replies ends the session with 4400.',
    async run(kit) {
      const session = await reader(kit);
      await session.stillWorks('the handshake');
      await session.violate(frame(Kind.ALIAS, 0, 'worker-1'), [4400], 'the name of an agent without agents');
    },
  },
  {
    name: 'replies/of-the-client',
    section: SECTION,
    tests: 'client',
    title: 'A client asks @replies for what follows a part, and reads the parts behind the first body.',
    async run(kit) {
      const session = await reader(kit);
      await session.requires('follow');
      const call = await session.ask({ test: 'follow', name: 'chat-42', after: 7 });
      const { id, body } = await session.asked('a request to @replies');
      mustEqual(body.agent, '@replies', 'the receiver');
      mustEqual(body.content.length, 0, 'the length of the body');
      mustEqual(body.metadata?.['follow'], { name: 'chat-42', after: 7 }, 'what it follows');
      const told = packed({ '@reply': { id: `reply_${'a'.repeat(22)}`, after: 7 } });
      session.link.write(...bodyFrames(Kind.CHUNK, id, { bytes: '', metadata: told }));
      for (const text of ['eight', 'nine', 'ten'])
        session.link.write(...bodyFrames(Kind.CHUNK, id, { bytes: text }));
      session.end(id);
      const { parts, error } = await toldOfOne(session, call);
      mustEqual(
        [parts, error ?? null],
        [['eight', 'nine', 'ten'], null],
        'the parts that the client has read',
      );
    },
  },
  {
    name: 'replies/client-leaves',
    section: SECTION,
    tests: 'client',
    title: 'A client that leaves a kept reply cancels, and reads the error that one has ended with.',
    async run(kit) {
      const session = await reader(kit);
      await session.requires('follow');
      const call = await session.ask({ test: 'follow', id: `reply_${'b'.repeat(22)}`, leave_after: 1 });
      const asked = await session.asked('a request to @replies');
      const told = packed({ '@reply': { id: `reply_${'b'.repeat(22)}`, after: 0 } });
      session.link.write(...bodyFrames(Kind.CHUNK, asked.id, { bytes: '', metadata: told }));
      session.link.write(...bodyFrames(Kind.CHUNK, asked.id, { bytes: 'one' }));
      await session.until(() => asked.isCancelled || undefined, 'the cancel of the client');
      session.end(asked.id);
      mustEqual((await toldOfOne(session, call)).parts, ['one'], 'the parts');
      const failing = await session.ask({ test: 'follow', name: 'gone' });
      const { id } = await session.asked('a second request to @replies');
      session.link.write(frame(Kind.ERROR, id, packed({ code: 'unknown_reply', message: 'there is none' })));
      const { error } = await toldOfOne(session, failing);
      mustEqual(error?.['code'], 'unknown_reply', 'the error');
    },
  },
];
