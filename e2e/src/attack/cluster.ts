import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Attack } from './attack.js';
import type { Scene } from './scene.js';

/** Attacks on the port for other nodes, and by session IDs that name other nodes. */

/** Connections without a ticket that the port keeps, and those of the neighbour and of the kernel's queue. */
const MOST_CONNECTIONS = 256 + 20;
const HEAD = [
  'GET /parlance/peer HTTP/1.1',
  'Host: node',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  'Sec-WebSocket-Protocol: m2m.v1',
].join('\r\n');

async function open(scene: Scene): Promise<Socket> {
  const socket = connect({ port: await scene.server.call('peerPort'), host: '127.0.0.1' });
  socket.on('error', () => {});
  scene.floors++;
  await new Promise((resolve) => {
    socket.once('connect', resolve);
    socket.once('close', resolve);
  });
  return socket;
}

function send(scene: Scene, socket: Socket, data: Uint8Array | string): void {
  if (!socket.writable) return;
  socket.write(data);
  scene.sentBytes += data.length;
}

/** @returns everything that the server answers until it closes the connection. */
function answerOf(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const finish = () => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    socket.once('close', finish);
    socket.setTimeout(3_000, finish);
  });
}

/** Sends what `make` returns on new connections, four at a time. @returns the answers, each once. */
async function repeat(scene: Scene, make: () => Uint8Array | string): Promise<ReadonlySet<string>> {
  const answers = new Set<string>();
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!scene.isOver) {
        const socket = await open(scene);
        send(scene, socket, make());
        answers.add((await answerOf(socket)).split('\r\n', 1)[0] as string);
        await delay(1);
      }
    }),
  );
  return answers;
}

const others = (answers: ReadonlySet<string>, allowed: readonly string[]): readonly string[] =>
  [...answers]
    .filter((answer) => answer !== '' && !allowed.includes(answer))
    .map((answer) => `answered ${answer}`);

/** Connections that never finish their request. */
async function stayHalfOpen(scene: Scene, first: () => string): Promise<readonly string[]> {
  const sockets: Socket[] = [];
  const count = scene.isShort ? 400 : 2_000;
  // Other ports of the process may have some.
  const before = await scene.server.call('connections');
  for (let i = 0; i < count && !scene.isOver; i++) {
    const socket = await open(scene);
    socket.resume();
    send(scene, socket, first());
    sockets.push(socket);
  }
  await delay(100);
  const kept = (await scene.server.call('connections')) - before;
  await scene.wait();
  for (const socket of sockets) socket.destroy();
  return kept > MOST_CONNECTIONS ? [`${kept} connections are open`] : [];
}

export const CLUSTER: readonly Attack[] = [
  {
    category: 'cluster',
    name: 'node port: upgrades without a ticket',
    server: 'cluster',
    async run(scene) {
      const answers = await repeat(scene, () => `${HEAD}\r\n\r\n`);
      return others(answers, ['HTTP/1.1 401 Unauthorized']);
    },
  },
  {
    category: 'cluster',
    name: 'node port: forged tickets of 40 KB',
    server: 'cluster',
    async run(scene) {
      const ticket = `${randomBytes(30_000).toString('base64url')}.${randomBytes(32).toString('base64url')}`;
      const answers = await repeat(scene, () => `${HEAD}\r\nAuthorization: Parlance ${ticket}\r\n\r\n`);
      return others(answers, ['HTTP/1.1 401 Unauthorized']);
    },
  },
  {
    category: 'cluster',
    name: 'node port: garbage',
    server: 'cluster',
    async run(scene) {
      const answers = await repeat(scene, () => randomBytes(16_000));
      return others(answers, ['HTTP/1.1 400 Bad Request']);
    },
  },
  {
    category: 'cluster',
    name: 'node port: connections that say nothing',
    server: 'cluster',
    run: (scene) => stayHalfOpen(scene, () => ''),
  },
  {
    category: 'cluster',
    name: 'node port: heads that never end',
    server: 'cluster',
    run: (scene) => stayHalfOpen(scene, () => `${HEAD}\r\nX-Fill: ${'x'.repeat(40_000)}`),
  },
  {
    category: 'cluster',
    name: 'sessions of nodes that are not there',
    server: 'cluster',
    async run(scene) {
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          while (!scene.isOver) {
            const peer = scene.connect();
            const sessionId = `sess_${randomBytes(10).toString('hex')}`;
            const resume = { sessionId, token: 'x'.repeat(32), received: 0, attempt: 1 };
            await peer.greet({ resume }, scene.token('echo'));
            peer.cut();
          }
        }),
      );
      return undefined;
    },
  },
];
