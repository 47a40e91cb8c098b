import { Agent, type ClientRequest, request as httpRequest } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { LinkKind } from '@parlance/protocol';
import { encodeRecords, RecordReader } from '@parlance/protocol/records';
import type { Attack } from './attack.js';
import { MIB } from './bombs.js';
import { MOST_CONNECTIONS, MOST_CREDENTIALS } from './bounds.js';
import type { Scene } from './scene.js';
import { bodyFrame, hello } from './wire.js';

/** Attacks by the requests of sessions over HTTP. */

const HEAD_SIZE = 200;
const KEY_SIZE = 22;
/** Bytes of frames that a client gathers for a request. */
const GATHERED = 64 * 1024;
const REQUEST = bodyFrame(LinkKind.REQUEST, 'x', { stream: 1 });

interface Post {
  readonly body?: Uint8Array;
  readonly agent?: Agent;
}

/** Begins a request. Its bytes count, and it ends with the scene. */
function begin(scene: Scene, name: string, agent: Agent | false = false): ClientRequest {
  const request = httpRequest({
    port: scene.port,
    host: '127.0.0.1',
    localAddress: scene.address(),
    path: `/session/${name}`,
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    agent,
  });
  scene.floors++;
  scene.sentBytes += HEAD_SIZE;
  scene.onCut(() => request.destroy());
  request.on('error', () => {});
  return request;
}

function write(scene: Scene, request: ClientRequest, bytes: Uint8Array): boolean {
  scene.sentBytes += bytes.length;
  return request.write(bytes);
}

/** A whole request. @returns the status of its answer; 0 if there was none. */
function post(scene: Scene, name: string, { body = new Uint8Array(), agent }: Post = {}): Promise<number> {
  const request = begin(scene, name, agent);
  scene.sentBytes += body.length;
  request.end(body);
  return new Promise((resolve) => {
    request.on('response', (response) => {
      response.on('error', () => {}).resume();
      if (name === 'stream') request.destroy();
      resolve(response.statusCode ?? 0);
    });
    request.on('close', () => resolve(0));
  });
}

/** The body of a request with frames. */
function bodyOf(key: Uint8Array, number: number, ...frames: readonly Uint8Array[]): Uint8Array {
  const head = Buffer.concat([Buffer.alloc(4), key]);
  head.writeUInt32LE(number);
  return encodeRecords([head, ...frames]);
}

interface Opened {
  readonly key: Uint8Array;
  /** Reads the response no further. */
  stall(): void;
  /** Whether the server has ended it. */
  isOver(): boolean;
}

/** A session. @throws if the server does not admit it. */
function open(scene: Scene, as = 'echo'): Promise<Opened> {
  const request = begin(scene, 'stream');
  const body = encodeRecords([hello({ auth: { token: scene.token(as) } })]);
  scene.sentBytes += body.length;
  request.end(body);
  return new Promise((resolve, reject) => {
    const fail = (why: string) => reject(new Error(`no session: ${why}`));
    request.on('close', () => fail('the connection is over'));
    request.on('response', (response) => {
      if (response.statusCode !== 200) return fail(`HTTP ${response.statusCode}`);
      let isOver = false;
      let key: Uint8Array | undefined;
      const reader = new RecordReader(MIB, {
        onRecord(frame) {
          if (key === undefined) key = Uint8Array.from(frame);
          // ACCEPT.
          else resolve({ key, stall: () => void response.pause(), isOver: () => isOver });
        },
        onClose(code, reason) {
          const answer = `${code} ${reason}`.trim().slice(0, 70);
          scene.answers.set(answer, (scene.answers.get(answer) ?? 0) + 1);
          fail(answer);
        },
      });
      response.on('data', (chunk: Buffer) => reader.push(chunk)).on('error', () => {});
      response.on('close', () => {
        isOver = true;
      });
    });
  });
}

/** Repeats an attempt, `at` of them in parallel, until the scene is over. */
async function repeat(scene: Scene, at: number, once: (agent: Agent) => Promise<unknown>): Promise<void> {
  const agents = Array.from({ length: at }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  await Promise.all(
    agents.map(async (agent) => {
      while (!scene.isOver) {
        await once(agent);
        await delay(1);
      }
    }),
  );
  for (const agent of agents) agent.destroy();
}

/** Connections that say `text` and then nothing. @returns what is wrong. */
async function halfOpen(scene: Scene, text: string): Promise<readonly string[]> {
  const count = scene.isShort ? 300 : 2_000;
  let left = 0;
  for (let at = 0; at < count && !scene.isOver; at++) {
    const socket = connectTcp({ port: scene.port, host: '127.0.0.1', localAddress: scene.address() });
    left++;
    scene.floors++;
    scene.sentBytes += text.length;
    scene.onCut(() => socket.destroy());
    socket.on('error', () => {}).on('close', () => left--);
    socket.resume().write(text);
    if (at % 50 === 49) await delay(1);
  }
  await delay(100);
  const open = await scene.server.call('connections');
  if (open > MOST_CONNECTIONS) return [`${open} connections are open at the same time`];
  if (scene.isShort) return [];
  // Ten seconds for a head or a body, and some for closing.
  await scene.wait();
  return left > 0 ? [`${left} requests that are not whole are still open after 16 s`] : [];
}

const headOf = (name: string, rest: string) =>
  `POST /session/${name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n${rest}`;

/** Answers other than the expected ones, said once each. */
class Surprises {
  readonly #expected: ReadonlySet<number>;
  readonly #counts = new Map<number, number>();

  constructor(...expected: readonly number[]) {
    // A connection may be cut, and an address turned away, at any time.
    this.#expected = new Set([0, 429, ...expected]);
  }

  add(status: number): void {
    if (!this.#expected.has(status)) this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1);
  }

  get found(): string[] {
    return [...this.#counts].map(([status, count]) => `${count} requests were answered with ${status}`);
  }
}

/** How often a handler of the attacker runs meanwhile. */
async function runsOf(scene: Scene, attack: () => Promise<unknown>): Promise<number> {
  const before = (await scene.server.call('counts')).handlerRuns;
  await attack();
  return (await scene.server.call('counts')).handlerRuns - before;
}

const base = { category: 'http', server: 'http' } as const;

export const HTTP: readonly Attack[] = [
  {
    ...base,
    name: 'half a head',
    sessions: 100,
    seconds: 16,
    run: (scene) => halfOpen(scene, headOf('stream', 'X-Slow: ')),
  },
  {
    ...base,
    name: 'half of HELLO',
    sessions: 100,
    seconds: 16,
    run: (scene) => halfOpen(scene, headOf('stream', 'Content-Length: 1000\r\n\r\nhalf')),
  },
  {
    ...base,
    name: 'half a key',
    sessions: 100,
    seconds: 16,
    run: (scene) => halfOpen(scene, headOf('frames', 'Content-Length: 1000\r\n\r\n\x1ahalf')),
  },
  {
    ...base,
    name: 'wrong tokens over HTTP',
    sessions: 16,
    async run(scene) {
      const body = encodeRecords([hello({ auth: { token: 'wrong.token' } })]);
      const before = (await scene.server.call('counts')).authenticate;
      await repeat(scene, 16, () => post(scene, 'stream', { body }));
      const asked = (await scene.server.call('counts')).authenticate - before;
      return asked > MOST_CREDENTIALS ? [`authenticate was called ${asked} times for wrong tokens`] : [];
    },
  },
  {
    ...base,
    name: 'streams without HELLO',
    sessions: 100,
    async run(scene) {
      const count = scene.isShort ? 300 : 2_000;
      for (let at = 0; at < count && !scene.isOver; at++) {
        begin(scene, 'stream').end();
        if (at % 50 === 49) await delay(5);
      }
      const open = await scene.server.call('connections');
      return open > MOST_CONNECTIONS ? [`${open} connections are open at the same time`] : [];
    },
  },
  {
    ...base,
    name: 'keys that no client has',
    async run(scene) {
      const surprises = new Surprises(404);
      let at = 0;
      await repeat(scene, 16, async (agent) => {
        const key = Buffer.alloc(KEY_SIZE, at++);
        surprises.add(await post(scene, 'frames', { body: bodyOf(key, 1, REQUEST), agent }));
      });
      return surprises.found;
    },
  },
  {
    ...base,
    name: 'bodies without a length or an end',
    async run(scene) {
      const { key } = await open(scene);
      const piece = Buffer.alloc(GATHERED, 1);
      // The beginning of a record of the largest size.
      const begun = Buffer.concat([bodyOf(key, 1), Buffer.of(0x80, 0x80, 0x80, 0x08)]);
      await Promise.all(
        [begun, Buffer.of(0x80, 0x80, 0x80, 0x08), Buffer.of(100)].map(async (first) => {
          while (!scene.isOver) {
            const request = begin(scene, 'frames');
            let isGone = false;
            request.on('close', () => {
              isGone = true;
            });
            write(scene, request, first);
            while (!isGone && !scene.isOver) {
              if (write(scene, request, piece)) await delay(1);
              else await Promise.race([new Promise((resolve) => request.once('drain', resolve)), delay(100)]);
            }
            request.destroy();
          }
        }),
      );
      return [];
    },
  },
  {
    ...base,
    name: 'a request with frames, again and again',
    async run(scene) {
      const { key } = await open(scene);
      const body = bodyOf(key, 1, REQUEST, bodyFrame(LinkKind.MESSAGE, Buffer.alloc(GATHERED / 4)));
      // A server ends the stream of a client that repeats too much, and its key with it.
      const surprises = new Surprises(204, 404, 409);
      const runs = await runsOf(scene, () =>
        repeat(scene, 8, async (agent) => surprises.add(await post(scene, 'frames', { body, agent }))),
      );
      return runs > 1 ? [`the handler of one request ran ${runs} times`] : surprises.found;
    },
  },
  {
    ...base,
    name: 'requests beside one that is under way',
    async run(scene) {
      const { key } = await open(scene);
      const first = begin(scene, 'frames');
      write(scene, first, bodyOf(key, 1));
      await delay(20);
      // Once its time is up, it is lost, and its key with it.
      const surprises = new Surprises(404, 409);
      const runs = await runsOf(scene, () =>
        repeat(scene, 16, async (agent) => {
          for (const number of [1, 2, 0xffff_ffff])
            surprises.add(await post(scene, 'frames', { body: bodyOf(key, number, REQUEST), agent }));
        }),
      );
      return runs > 0 ? [`a handler ran ${runs} times for requests beside another one`] : surprises.found;
    },
  },
  {
    ...base,
    name: 'empty requests with frames',
    async run(scene) {
      while (!scene.isOver) {
        const stream = await open(scene).catch(() => delay(50));
        if (stream === undefined) continue;
        const agent = new Agent({ keepAlive: true, maxSockets: 1 });
        for (let number = 1; !stream.isOver() && !scene.isOver; number++)
          await post(scene, 'frames', { body: bodyOf(stream.key, number), agent });
        agent.destroy();
      }
      return [];
    },
  },
  {
    ...base,
    name: 'unread pages, over HTTP',
    sessions: 4,
    goesOn: true,
    async run(scene) {
      for (let session = 0; session < 4; session++) {
        const stream = await open(scene, 'pages');
        stream.stall();
        const frames = Array.from({ length: 100 }, (_, at) =>
          bodyFrame(LinkKind.REQUEST, 'x', { stream: 2 * at + 1 }),
        );
        scene.floors += frames.length;
        await post(scene, 'frames', { body: bodyOf(stream.key, 1, ...frames) });
      }
      await scene.wait();
      return [];
    },
  },
];
