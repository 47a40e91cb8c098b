import { setTimeout as pause } from 'node:timers/promises';
import type { Message, Session } from '@parlance/client';
import { isProtocolError } from '@parlance/protocol';
import type { Device } from './device.js';
import { PARTS, replyParts, WHOLE } from './gate.js';
import type { Feature } from './matrix.js';
import type { Crowd } from './world.js';

/** How each feature is used before, while and after something happens. */

export interface Probe {
  /** Continues with it, right before something happens. */
  readonly step?: () => Promise<void>;
  /** Resolves if it continues; rejects with the error that an application gets. */
  readonly end: () => Promise<void>;
}

/** @param name of the principal, which no other probe has. */
export type Begin = (crowd: Crowd, name: string) => Promise<Probe>;

/** Parts as they come. */
class Reading {
  readonly texts: string[] = [];
  /** Resolves with what has ended it. */
  readonly over: Promise<{ readonly error?: unknown }>;

  constructor(parts: AsyncIterable<Message>) {
    this.over = this.#read(parts).then(
      () => ({}),
      (error: unknown) => ({ error }),
    );
  }

  async #read(parts: AsyncIterable<Message>): Promise<void> {
    for await (const { text } of parts) this.texts.push(text);
  }

  /** @throws if it ends before that. */
  async has(count: number): Promise<void> {
    let isOver = false;
    void this.over.then(() => {
      isOver = true;
    });
    while (this.texts.length < count) {
      if (isOver) await this.whole();
      await pause(5);
    }
  }

  /** @throws what has ended it, and if parts are missing, doubled or out of order. */
  async whole(): Promise<void> {
    const { error } = await this.over;
    expectParts(this.texts, error !== undefined);
    if (error !== undefined) throw error;
  }
}

function expectParts(texts: readonly string[], isCutShort: boolean): void {
  const expected = isCutShort ? WHOLE.slice(0, texts.length) : WHOLE;
  if (texts.join('') !== expected.join('')) throw new Error(`the parts ${texts.join('')}`);
}

const messages: Begin = async (crowd, name) => {
  const device = await crowd.dial(name);
  await device.say('before');
  return { step: () => device.say('meanwhile'), end: () => device.say('after') };
};

const ask = (session: Session, text: string, rest: Readonly<Record<string, boolean | string>>) =>
  session.stream(text, { metadata: rest });

const request =
  (again: boolean): Begin =>
  async (crowd, name) => {
    const { session } = await crowd.dial(name);
    const answer = session.request(name, { metadata: { again } });
    const over = answer.then(
      ({ text }) => ({ text }),
      (error: unknown) => ({ error }),
    );
    while ((await crowd.world.nodeAt(0).process.call('calls'))[name] === undefined) await pause(10);
    return {
      async end() {
        const result = await over;
        if ('error' in result) throw result.error;
        expectParts([result.text], false);
      },
    };
  };

const stream =
  (again: boolean): Begin =>
  async (crowd, name) => {
    const { session } = await crowd.dial(name);
    const reading = new Reading(ask(session, name, { again }));
    await reading.has(PARTS.before);
    return { step: () => reading.has(PARTS.meanwhile), end: () => reading.whole() };
  };

/** A reply that is followed from its beginning after all that has happened. */
const kept =
  (again: boolean): Begin =>
  async (crowd, name) => {
    const { session } = await crowd.dial(name);
    const reading = new Reading(ask(session, name, { again, keep: 'kept' }));
    await reading.has(PARTS.before);
    return {
      step: () => reading.has(PARTS.meanwhile),
      async end() {
        const reader = await crowd.dial(name);
        await new Reading(reader.session.follow('kept')).whole();
      },
    };
  };

/** Other nodes know a reply when the engine has begun its record, which takes longer than a part on a busy machine. */
async function untilKnown(follow: () => Reading): Promise<Reading> {
  for (;;) {
    const following = follow();
    try {
      await following.has(PARTS.before);
      return following;
    } catch (error) {
      if (!isProtocolError(error) || error.code !== 'unknown_reply') throw error;
      await pause(10);
    }
  }
}

/** Another device that follows a reply while something happens. */
const follower =
  (again: boolean): Begin =>
  async (crowd, name) => {
    const asking = new Reading(ask((await crowd.dial(name)).session, name, { again, keep: 'followed' }));
    await asking.has(PARTS.before);
    const { session } = await crowd.dial(name);
    const following = await untilKnown(() => new Reading(session.follow('followed')));
    return { step: () => following.has(PARTS.meanwhile), end: () => following.whole() };
  };

const hasAgent = async ({ session }: Device, name: string) =>
  (await session.agents().catch(() => undefined))?.get(name) !== undefined;

/** Two agents, of which the second is at the other node. */
async function pair(crowd: Crowd, name: string): Promise<readonly [Device, Device]> {
  const ann = await crowd.dial(`${name}/ann`);
  const ben = await crowd.dial(`${name}/ben`, 1, () => replyParts(crowd.world.gate));
  while ((await ann.session.agents()).get('ben') === undefined) await pause(10);
  return [ann, ben];
}

const agentMessages: Begin = async (crowd, name) => {
  const [ann, ben] = await pair(crowd, name);
  const texts: string[] = [];
  const tell = async (text: string) => {
    texts.push(text);
    // A single process that has begun again knows an agent when that has come back, and refuses messages to it before.
    if (crowd.world.isAlone) await ann.until(() => hasAgent(ann, 'ben'));
    await ann.send(text, { to: 'ben' });
    await ann.until(() => ben.heard.includes(text));
    if (ben.heard.join() !== texts.join()) throw new Error(`ben has heard ${ben.heard.join()}`);
  };
  await tell('before');
  return { step: () => tell('meanwhile'), end: () => tell('after') };
};

const agentRequests: Begin = async (crowd, name) => {
  const [ann] = await pair(crowd, name);
  const reading = new Reading(ann.session.stream('ask', { to: 'ben' }));
  await reading.has(PARTS.before);
  return { step: () => reading.has(PARTS.meanwhile), end: () => reading.whole() };
};

/** Two members, of which the second is at the other node. */
const group: Begin = async (crowd, name) => {
  const members = [await crowd.dial(name), await crowd.dial(name, 1)];
  // Their sessions are in the group when `onSession` has begun.
  for (const member of members) await member.say('here');
  const reaches = async (count: number) =>
    (
      await Promise.all(crowd.world.living.map(({ process, at }) => process.call('membersOf', { at, name })))
    ).every((found) => found === count);
  while (!(await reaches(members.length))) await pause(10);
  let told = 0;
  const tell = async () => {
    const texts: string[] = [];
    // Without nodes, a group keeps nothing for members that are away.
    if (crowd.world.isAlone) for (const member of members) await member.say('here');
    for (const { process, at } of crowd.world.living) {
      texts.push(`news ${++told}`);
      await process.call('tellGroup', { at, name, text: texts.at(-1) as string });
    }
    for (const member of members) {
      await member.until(() => texts.every((text) => member.heard.includes(text)));
      const news = member.heard.filter((text) => text.startsWith('news'));
      // Those of different nodes have no order.
      if ([...news].sort().join() !== [...texts].sort().join()) throw new Error(`heard ${news.join()}`);
      member.heard.splice(0);
    }
  };
  await tell();
  return { step: tell, end: tell };
};

const data: Begin = async (crowd, name) => {
  const device = await crowd.dial(name);
  let count = 0;
  const step = async () => {
    await device.say('count this');
    count++;
  };
  await step();
  return {
    step,
    async end() {
      await step();
      const { text } = await device.session.request('data', { metadata: { what: 'data' } });
      if (text !== `${count}`) throw new Error(`session.data counts ${text} of ${count} messages`);
    },
  };
};

/** One event is being handled while something happens. */
const events: Begin = async (crowd, name) => {
  const device = await crowd.dial(name);
  let count = 0;
  const emit = async () => {
    await device.session.emit('counted', ++count);
  };
  await emit();
  const held = device.session.emit('held', name).then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  while ((await crowd.world.nodeAt(0).process.call('calls'))[name] === undefined) await pause(10);
  return {
    step: emit,
    async end() {
      const failed = await held;
      if (failed !== undefined) throw failed.error;
      await emit();
      const { text } = await device.session.request('data', { metadata: { what: 'data' } });
      if (text !== `${count + 1}`) throw new Error(`${text} events of ${count + 1} were handled`);
    },
  };
};

export const PROBES: Readonly<Record<Feature, Begin>> = {
  'plain messages': messages,
  'durable messages': messages,
  'plain requests': request(false),
  'durable requests': request(false),
  "durable requests, `ifProcessDies('again')`": request(true),
  'plain streams': stream(false),
  'durable streams': stream(false),
  "durable streams, `ifProcessDies('again')`": stream(true),
  'plain events': events,
  'durable events': events,
  'plain kept replies': kept(false),
  'durable kept replies': kept(false),
  "durable kept replies, `ifProcessDies('again')`": kept(true),
  'plain followers': follower(false),
  'durable followers': follower(true),
  'plain messages between agents': agentMessages,
  'durable messages between agents': agentMessages,
  'plain requests between agents': agentRequests,
  'durable requests between agents': agentRequests,
  'plain groups': group,
  'durable groups': group,
  'plain `session.data`': data,
  'durable `session.data`': data,
};
