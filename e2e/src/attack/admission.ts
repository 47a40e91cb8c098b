import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Attack } from './attack.js';
import { MOST_CONNECTIONS, MOST_CREDENTIALS } from './bounds.js';
import type { Scene } from './scene.js';
import type { Peer } from './wire.js';

/** Attacks by strangers: upgrades, credentials, and connections that never send HELLO. */

/**
 * Per address in the ten seconds of an attack: the minute's 600 at once, then 10 per second, and some
 * tolerance.
 */
const MOST_RESUMES = 720;

/** Repeats an attempt, `at` of them in parallel, until the scene is over. */
async function knock(scene: Scene, at: number, once: () => Promise<void>): Promise<void> {
  await Promise.all(
    Array.from({ length: at }, async () => {
      while (!scene.isOver) {
        await once();
        await delay(1);
      }
    }),
  );
}

/** Loses the connection and resumes the session, again and again. */
async function resumeAlways(scene: Scene, as: string, begin: (peer: Peer) => void = () => {}) {
  let session: Peer = await scene.open({ as });
  begin(session);
  await delay(scene.isShort ? 100 : 500);
  const { sessionId = '', payload } = session.accepted ?? {};
  let token = payload?.resume?.token ?? '';
  let recovered = 0;
  for (let attempt = 1; !scene.isOver && attempt < 100_000; attempt++) {
    const next = scene.connect();
    const resume = { sessionId, token, received: 0, attempt };
    if (!(await next.greet({ resume }, scene.token(as)))) await delay(1);
    else if (next.accepted?.payload.resume?.recovered) {
      recovered++;
      token = next.accepted.payload.resume.token;
    }
    session.cut();
    session = next;
  }
  return recovered > MOST_RESUMES ? [`one session was resumed ${recovered} times`] : [];
}

/** Sends an HTTP head literally. Returns the first line of the answer. */
function rawUpgrade(scene: Scene, path: string, lines: readonly string[], body = ''): Promise<string> {
  return new Promise((resolve) => {
    const socket: Socket = connectTcp({ port: scene.port, host: '127.0.0.1', localAddress: scene.address() });
    let answer = '';
    const finish = () => {
      socket.destroy();
      resolve(answer.split('\r\n', 1)[0] as string);
    };
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
      if (answer.includes('\r\n')) finish();
    });
    socket.on('error', finish);
    socket.on('close', finish);
    socket.setTimeout(3_000, finish);
    const head = [`GET ${path} HTTP/1.1`, ...lines].join('\r\n');
    scene.sentBytes += head.length;
    socket.write(`${head}\r\n\r\n${body}`);
  });
}

/** Opens sessions with a token, 16 at a time, and drops each at once. */
async function present(scene: Scene, token: () => string, what: string): Promise<readonly string[]> {
  const before = (await scene.server.call('counts')).authenticate;
  await knock(scene, 16, async () => {
    const peer = scene.connect();
    await peer.greet({}, token());
    peer.cut();
  });
  const asked = (await scene.server.call('counts')).authenticate - before;
  return asked > MOST_CREDENTIALS ? [`authenticate was called ${asked} times for ${what}`] : [];
}

const UPGRADE = [
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Protocol: m2m.v1',
];

export const ADMISSION: readonly Attack[] = [
  {
    category: 'admission',
    name: 'wrong tokens',
    sessions: 16,
    run: (scene) => present(scene, () => 'wrong.token', 'wrong tokens'),
  },
  {
    category: 'admission',
    name: 'right tokens, sessions dropped',
    sessions: 100,
    run: (scene) => present(scene, () => scene.token('echo'), 'one address'),
  },
  {
    category: 'admission',
    name: 'evict those who wait to be known',
    sessions: 100,
    async run(scene) {
      // Ten clients of the same address whose authentication takes a moment, and then a crowd without
      // credentials.
      const honest = Array.from({ length: 10 }, () => scene.connect());
      await Promise.all(honest.map((peer) => peer.opened()));
      const admitted = Promise.all(honest.map((peer) => peer.greet({}, scene.token('slow'))));
      let strangers = 0;
      await Promise.race([
        admitted,
        knock(scene, 64, async () => {
          if (strangers++ < 4_000) await scene.connect().opened();
          else await delay(20);
        }),
      ]);
      const lost = (await admitted).filter((was) => !was).length;
      return lost > 0 ? [`${lost} of 10 honest clients were kept out although their HELLO had arrived`] : [];
    },
  },
  {
    category: 'admission',
    name: 'upgrades without HELLO',
    sessions: 100,
    seconds: 16,
    async run(scene) {
      const count = scene.isShort ? 300 : 2_000;
      for (let i = 0; i < count && !scene.isOver; i += 50) {
        await Promise.all(Array.from({ length: 50 }, () => scene.connect().opened()));
      }
      const open = await scene.server.call('connections');
      if (open > MOST_CONNECTIONS) return [`${open} connections are open at the same time`];
      if (scene.isShort) return [];
      // Ten seconds for HELLO, and some for closing.
      await scene.wait();
      const left = scene.openPeers;
      return left > 0 ? [`${left} connections without HELLO are still open after 16 s`] : [];
    },
  },
  {
    category: 'admission',
    name: 'silent TCP connections',
    sessions: 100,
    async run(scene) {
      const count = scene.isShort ? 300 : 3_000;
      const sockets = Array.from({ length: count }, () =>
        connectTcp({ port: scene.port, host: '127.0.0.1', localAddress: scene.address() }).on(
          'error',
          () => {},
        ),
      );
      scene.floors += count;
      await delay(300);
      const open = await scene.server.call('connections');
      await scene.wait();
      for (const socket of sockets) socket.destroy();
      return open > MOST_CONNECTIONS ? [`${open} silent connections are open at the same time`] : [];
    },
  },
  {
    category: 'admission',
    name: 'upgrades that announce a body',
    boundsTime: false,
    seconds: 1,
    async run(scene) {
      const length = await rawUpgrade(scene, '/session', [...UPGRADE, 'Content-Length: 5'], 'hello');
      const chunked = await rawUpgrade(
        scene,
        '/session',
        [...UPGRADE, 'Transfer-Encoding: chunked'],
        '0\r\n\r\n',
      );
      return [length, chunked]
        .filter((line) => / 101 /.test(line))
        .map((line) => `an upgrade with a body was answered ${line}`);
    },
  },
  {
    category: 'admission',
    name: 'other names for this host',
    boundsTime: false,
    seconds: 1,
    async run(scene) {
      const lines = ['Host: evil.example', 'Connection: close'];
      const metrics = await rawUpgrade(scene, '/metrics', lines);
      return / 200 /.test(metrics) ? [`/metrics answered another host: ${metrics}`] : [];
    },
  },
  {
    category: 'admission',
    name: 'identities that are no strings',
    seconds: 1,
    boundsTime: false,
    async run(scene) {
      for (const kind of ['object', 'symbol', 'number', 'function']) {
        const peer = scene.connect();
        const admitted = await Promise.race([peer.greet({}, `odd.${kind}`), delay(1_000).then(() => false)]);
        if (scene.server.end !== undefined) return [];
        if (admitted) return [`an agent ID that is a ${kind} was admitted`];
        peer.cut();
      }
      return [];
    },
  },
  {
    category: 'admission',
    name: 'resumes without end',
    run: (scene) => resumeAlways(scene, 'echo'),
  },
  {
    category: 'admission',
    name: 'resumes that ask for all of it again',
    run: (scene) =>
      resumeAlways(scene, 'pages', (peer) => {
        for (let i = 0; i < 16; i++) peer.request('x');
      }),
  },
  {
    category: 'admission',
    name: 'a stranger from each of many addresses',
    sessions: 100,
    addresses: 3_000,
    async run(scene) {
      const count = scene.isShort ? 200 : 3_000;
      for (let i = 0; i < count && !scene.isOver; i += 20) {
        await Promise.all(
          Array.from({ length: 20 }, async (_, j) => {
            const peer = scene.connect(i + j);
            await peer.greet({}, 'wrong.token');
            peer.cut();
          }),
        );
      }
      return undefined;
    },
  },
  {
    category: 'admission',
    name: 'metrics, asked for without end',
    run: async (scene) => {
      await knock(scene, 8, async () => {
        await rawUpgrade(scene, '/metrics', ['Host: localhost', 'Connection: close']);
      });
      return undefined;
    },
  },
];
