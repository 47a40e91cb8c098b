import { connect } from '@parlance/client';
import type { SessionCore } from '@parlance/protocol';
import { systemClock } from '@parlance/protocol/internal';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { type Crowd, type CrowdOptions, openCrowd } from '../load/crowd.js';
import { FrameSocket, maskedFrame, Opcode } from '../load/frame-socket.js';
import { createCore, SessionSpeaker, session } from '../systems/session.js';
import type { System } from '../systems/system.js';

/** Clients whose sessions are at the node to which they connect, or at another one. */

export interface LoadOptions extends CrowdOptions {
  /** The node that has the sessions. @default the one at `port` */
  readonly owner?: number | undefined;
}

let crowd: Crowd | undefined;

/** HELLO is the first message: it is another one for each session that is resumed. */
const TARGET = { path: '/session', subprotocol: 'm2m.v1' };

/** A session that has lost its connection; the next one resumes it. */
async function suspended(port: number): Promise<SessionCore> {
  const core = createCore();
  return await new Promise((resolve, reject) => {
    const socket = new FrameSocket(
      { port, ...TARGET },
      {
        onOpen() {
          core.handleConnected(systemClock.now());
          transmit();
        },
        onFrame(_opcode, payload) {
          core.handleMessage(payload, systemClock.now());
          while (core.pollEvent() !== undefined);
        },
        onBatch() {
          if (core.state !== 'established') return;
          transmit();
          socket.destroy();
        },
        onClose() {
          if (core.state !== 'established') return reject(new Error('there is no session to resume'));
          core.handleDisconnected(1006, '', systemClock.now());
          while (core.pollEvent() !== undefined);
          resolve(core);
        },
      },
    );
    const transmit = () => {
      for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
        socket.write(maskedFrame(Opcode.BINARY, frame as Uint8Array));
    };
  });
}

const commands = {
  async open({ owner, ...options }: LoadOptions): Promise<void> {
    if (owner === undefined) {
      crowd = await openCrowd(session, options);
      return;
    }
    const cores: SessionCore[] = [];
    while (cores.length < options.connections) cores.push(await suspended(owner));
    const system: System = {
      ...session,
      target: TARGET,
      speak: (socket, work, events) => new SessionSpeaker(socket, work, events, cores.pop() as SessionCore),
    };
    crowd = await openCrowd(system, options);
  },
  start: () => crowd?.start(),
  mark: () => ({ atMs: performance.now(), echoes: crowd?.echoes ?? 0 }),
  stop: () => crowd?.stop(),
  close: async () => await crowd?.close(),

  /** Milliseconds of each of `count` echoes, one after the other, with the client of applications. */
  async latencies({
    port,
    owner = port,
    count,
  }: {
    port: number;
    owner?: number;
    count: number;
  }): Promise<number[]> {
    let target = owner;
    const sockets: WebSocket[] = [];
    class Directed extends WebSocket {
      constructor(address: string, protocols: string[]) {
        super(address.replace(/:\d+/, `:${target}`), protocols);
        sockets.push(this);
      }
    }
    const client = await connect(`ws://127.0.0.1:${owner}/session`, {
      WebSocket: Directed,
      algorithms: ['NONE'],
      reconnect: { minDelayMs: 1, maxDelayMs: 10 },
    });
    if (owner !== port) {
      target = port;
      const resumed = new Promise<void>((resolve) => {
        client.on('state', (state) => {
          if (state === 'established') resolve();
        });
      });
      sockets[0]?.terminate();
      await resumed;
    }
    const echoes = client[Symbol.asyncIterator]();
    const taken: number[] = [];
    const payload = 'x'.repeat(100);
    for (let i = -100; i < count; i++) {
      const begun = performance.now();
      await client.send(payload);
      await echoes.next();
      if (i >= 0) taken.push(performance.now() - begun);
    }
    await client.close();
    return taken;
  },
};
export type LoadCommands = typeof commands;

offer(commands);
