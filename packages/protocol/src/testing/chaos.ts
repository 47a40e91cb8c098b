import { Extension, Subprotocol } from '../constants.js';
import { type Limits, resolveLimits, resolveTimers } from '../limits.js';
import { type CodedBody, plainBody } from '../link/link.js';
import { ResumeRefusal } from '../messages.js';
import { createSession } from '../session.js';
import type { SessionCore, SessionEvent } from '../session-core.js';
import { TEST_CAPABILITIES } from './simulation.js';

/**
 * A client and a server whose connections are cut, delayed, frozen and doubled, in virtual time, with a
 * checker that knows nothing of the protocol: it compares what was handed to one end with what the
 * other end was given.
 */

export interface ChaosOptions {
  /** A number from 0 up to 1; the only source of chance. */
  readonly random: () => number;
  readonly limits?: Partial<Limits>;
}

/** One direction of one stream, as the checker sees it. */
interface Channel {
  readonly sent: number[];
  readonly received: number[];
}

interface Connection {
  readonly id: number;
  isOpen: boolean;
  /** Frames on their way, in order per direction. */
  readonly toServer: { at: number; frame: Uint8Array | string }[];
  readonly toClient: { at: number; frame: Uint8Array | string }[];
  /** The core that the server's end of it feeds. */
  server: SessionCore;
  /** Nothing moves before this. */
  frozenUntil: number;
}

export interface ChaosOutcome {
  readonly cuts: number;
  readonly resumes: number;
  readonly notRecovered: readonly string[];
  readonly faults: readonly string[];
  readonly peakUnread: number;
  readonly messages: number;
}

const LINK = { message_window: 64 * 1024, stream_window: 16 * 1024, max_streams: 32 };
const CAPABILITIES = {
  ...TEST_CAPABILITIES,
  extensions: { [Extension.LINK]: JSON.stringify(LINK), [Extension.RESUME]: '{}' },
};
const WINDOW_MS = 10_000;

/** Runs one history of `steps` steps and then lets everything come to rest. */
export function runChaos({ random, limits: given }: ChaosOptions, steps: number): ChaosOutcome {
  const limits = resolveLimits({
    sessionWindow: 256 * 1024,
    streamWindow: 64 * 1024,
    maxStreams: 32,
    ...given,
  });
  const timers = resolveTimers(
    { resumeWindowMs: WINDOW_MS, pingIntervalMs: 10_000, pongTimeoutMs: 5_000 },
    true,
  );
  const common = { subprotocol: Subprotocol.BINARY, capabilities: CAPABILITIES, limits, timers };
  const int = (n: number) => Math.floor(random() * n);

  let now = 0;
  let cuts = 0;
  let resumes = 0;
  let nextConnection = 1;
  let nextSession = 1;
  let nextNumber = 0;
  let peakUnread = 0;
  const faults: string[] = [];
  const notRecovered: string[] = [];
  const connections: Connection[] = [];
  let active: Connection | undefined;
  let retryAt = Infinity;
  /** When the client lost its connection, to justify a session that was not recovered. */
  let lostAt = Infinity;
  const client = createSession({ ...common, role: 'client' });
  let session: SessionCore | undefined;
  let isOver = false;

  const channels = new Map<string, Channel>();
  const channel = (key: string): Channel => {
    const found = channels.get(key) ?? { sent: [], received: [] };
    channels.set(key, found);
    return found;
  };
  /** Parts that arrived and were not read. */
  const unread: { core: SessionCore; stream: number; charge: number }[] = [];
  const stalled = new Set<number>();
  /** Requests that the server is answering, with the parts still to come. */
  const answering = new Map<number, number>();
  const cancelled = new Set<number>();
  const finished = new Set<number>();

  const body = (number: number): CodedBody => {
    const size = random() < 0.05 ? int(200_000) : int(300);
    const bytes = new Uint8Array(4 + size);
    new DataView(bytes.buffer).setUint32(0, number);
    return plainBody(bytes);
  };
  const numberOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);

  const newServerCore = () => createSession({ ...common, role: 'server' });

  const dial = (): void => {
    const connection: Connection = {
      id: nextConnection++,
      isOpen: true,
      toServer: [],
      toClient: [],
      server: newServerCore(),
      frozenUntil: 0,
    };
    connections.push(connection);
    active = connection;
    retryAt = Infinity;
    connection.server.handleConnected(now);
    client.handleConnected(now);
  };

  /** Both ends hear of it, each when it will: the server's end may go on for a while. */
  const cut = (connection: Connection): void => {
    if (!connection.isOpen) return;
    connection.isOpen = false;
    cuts++;
    connection.toClient.length = 0;
    // What was on its way to the server is lost from some frame on.
    connection.toServer.length = int(connection.toServer.length + 1);
    if (active !== connection) return;
    active = undefined;
    lostAt = Math.min(lostAt, now);
    client.handleDisconnected(1006, '', now);
    retryAt = now + int(400);
  };

  const handleServerEvent = (
    core: SessionCore,
    event: SessionEvent,
    connection: Connection | undefined,
  ): void => {
    switch (event.type) {
      case 'hello': {
        const { resume } = event.hello;
        let refusal: ResumeRefusal | undefined;
        if (resume !== undefined) {
          if (session?.id !== resume.sessionId) refusal = ResumeRefusal.UNKNOWN_SESSION;
          else {
            const verdict = session.checkResume(event.hello, Subprotocol.BINARY);
            if (verdict === 'stale_attempt') {
              if (connection !== undefined) connection.isOpen = false;
              return;
            }
            refusal = verdict;
          }
          if (refusal === undefined && session !== undefined && connection !== undefined) {
            for (const other of connections) if (other.server === session) other.server = newServerCore();
            session.handleDisconnected(1006, 'taken over', now);
            connection.server = session;
            session.resume(resume, now);
            resumes++;
            return;
          }
        }
        core.accept(`sess_${nextSession++}`, now, { refusal });
        session ??= core;
        return;
      }
      case 'message':
        channel('c2s').received.push(numberOf(event.body.bytes));
        unread.push({ core, stream: 0, charge: event.body.charge });
        return;
      case 'request':
        channel('requests').received.push(numberOf(event.body.bytes));
        core.consume(event.streamId, event.body.charge);
        answering.set(event.streamId, 1 + int(6));
        return;
      case 'cancel':
        // The handler notices and returns.
        answering.delete(event.streamId);
        core.end(event.streamId);
        return;
      case 'ended':
        if (core === session && event.error !== undefined && event.error.code !== 'session_lost') {
          faults.push(`server: ${event.error.code}: ${event.error.message}`);
        }
    }
  };

  const handleClientEvent = (event: SessionEvent): void => {
    switch (event.type) {
      case 'message':
        channel('s2c').received.push(numberOf(event.body.bytes));
        unread.push({ core: client, stream: 0, charge: event.body.charge });
        return;
      case 'part':
      case 'response':
        channel(`reply ${event.streamId}`).received.push(numberOf(event.body.bytes));
        unread.push({ core: client, stream: event.streamId, charge: event.body.charge });
        if (event.type === 'response') finished.add(event.streamId);
        return;
      case 'end':
      case 'failure':
        finished.add(event.streamId);
        return;
      case 'state':
        if (event.state === 'established') lostAt = Infinity;
        return;
      case 'ended':
        isOver = true;
        if (event.error?.code === 'session_lost') {
          notRecovered.push(event.error.message);
          if (now - lostAt < WINDOW_MS)
            faults.push(`given up after ${now - lostAt} ms: ${event.error.message}`);
        } else if (event.error !== undefined) {
          faults.push(`client: ${event.error.code}: ${event.error.message}`);
        }
    }
  };

  const pump = (): void => {
    for (let busy = true; busy; ) {
      busy = false;
      for (let event = client.pollEvent(); event !== undefined; event = client.pollEvent()) {
        busy = true;
        handleClientEvent(event);
      }
      while (active !== undefined && active.toServer.length < 50) {
        const frame = client.pollTransmit();
        if (frame === undefined) break;
        busy = true;
        active.toServer.push({ at: now + 1 + int(60), frame: frame.slice() });
      }
      for (const connection of connections) {
        const core = connection.server;
        for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
          busy = true;
          handleServerEvent(core, event, connection);
        }
        while (connection.toClient.length < 50 && connection.server === core) {
          const frame = core.pollTransmit();
          if (frame === undefined) break;
          busy = true;
          if (connection.isOpen) connection.toClient.push({ at: now + 1 + int(60), frame: frame.slice() });
        }
      }
    }
    let sum = 0;
    for (const { charge } of unread) sum += charge;
    peakUnread = Math.max(peakUnread, sum);
  };

  /** What is due, in order per direction. */
  const deliver = (): void => {
    for (const connection of connections) {
      if (now < connection.frozenUntil) continue;
      for (
        let next = connection.toServer[0];
        next !== undefined && next.at <= now;
        next = connection.toServer[0]
      ) {
        connection.toServer.shift();
        connection.server.handleMessage(next.frame, now);
        pump();
      }
      for (
        let next = connection.toClient[0];
        next !== undefined && next.at <= now;
        next = connection.toClient[0]
      ) {
        connection.toClient.shift();
        if (connection === active) client.handleMessage(next.frame, now);
        pump();
      }
      // The server hears of the end when everything before it has arrived.
      if (!connection.isOpen && connection.toServer.length === 0) {
        connection.server.handleDisconnected(1006, '', now);
        connections.splice(connections.indexOf(connection), 1);
        return deliver();
      }
    }
  };

  const read = (): void => {
    for (let i = 0; i < unread.length; i++) {
      const item = unread[i] as (typeof unread)[number];
      if (stalled.has(item.stream) && item.core === client) continue;
      unread.splice(i, 1);
      item.core.consume(item.stream, item.charge);
      return;
    }
  };

  const tick = (ms: number): void => {
    now += ms;
    if (now >= retryAt && active === undefined && !isOver) dial();
    deliver();
    client.handleTimeout(now);
    for (const connection of connections) connection.server.handleTimeout(now);
    if (session !== undefined) session.handleTimeout(now);
    for (let event = session?.pollEvent(); event !== undefined; event = session?.pollEvent()) {
      handleServerEvent(session as SessionCore, event, undefined);
    }
    pump();
    // A connection that a core has given up by itself is gone for the driver too.
    if (active !== undefined && client.state === 'suspended' && !active.isOpen) active = undefined;
  };

  const step = (): void => {
    const canSend =
      client.negotiated !== undefined && !isOver && session !== undefined && session.state !== 'closed';
    const choice = int(100);
    if (!canSend || choice < 25) tick(int(80));
    else if (choice < 40) {
      channel('c2s').sent.push(nextNumber);
      client.send(body(nextNumber++));
    } else if (choice < 52) {
      channel('s2c').sent.push(nextNumber);
      session?.send(body(nextNumber++));
    } else if (choice < 58) {
      if (client.openStreams < 20) {
        channel('requests').sent.push(nextNumber);
        client.request(body(nextNumber++));
      }
    } else if (choice < 78) {
      const [streamId] = [...answering.keys()].slice(int(answering.size));
      if (streamId !== undefined && session?.isWanted(streamId)) {
        const left = (answering.get(streamId) ?? 1) - 1;
        if (left > 0) {
          answering.set(streamId, left);
          channel(`reply ${streamId}`).sent.push(nextNumber);
          session.chunk(streamId, body(nextNumber++));
        } else {
          answering.delete(streamId);
          session.end(streamId);
        }
      }
    } else if (choice < 90) read();
    else if (choice < 92) {
      const streamId = 1 + 2 * int(20);
      if (!finished.has(streamId) && !cancelled.has(streamId) && channels.has(`reply ${streamId}`)) {
        cancelled.add(streamId);
        client.cancel(streamId);
      }
    } else if (choice < 94) {
      const streamId = int(2) === 0 ? 0 : 1 + 2 * int(20);
      if (!stalled.delete(streamId)) stalled.add(streamId);
    } else if (choice < 96) {
      if (active !== undefined) active.frozenUntil = now + int(2_000);
    } else if (active !== undefined) cut(active);
    else tick(int(300));
    pump();
  };

  dial();
  for (let i = 0; i < steps && !isOver; i++) step();
  // Everybody reads, every handler finishes, no connection is cut any more.
  stalled.clear();
  for (let i = 0; i < 4_000 && !isOver; i++) {
    for (const streamId of [...answering.keys()]) {
      answering.delete(streamId);
      session?.end(streamId);
    }
    while (unread.length > 0) read();
    tick(20);
    const rests =
      client.state === 'established' &&
      client.framesUnconfirmed === 0 &&
      session?.framesUnconfirmed === 0 &&
      !client.hasOutput &&
      !client.isBlockedOnCredit &&
      !session.hasOutput &&
      !session.isBlockedOnCredit &&
      unread.length === 0 &&
      session.openStreams === 0;
    if (rests) break;
    if (i === 3_999)
      faults.push(
        `no rest: ${client.state}, ${client.framesUnconfirmed} and ${session?.framesUnconfirmed} unconfirmed, ${client.openStreams} streams`,
      );
  }

  let messages = 0;
  for (const [key, { sent, received }] of channels) {
    messages += received.length;
    const isCancelled = key.startsWith('reply') && cancelled.has(Number(key.slice(6)));
    const expected = isOver || isCancelled ? sent.slice(0, received.length) : sent;
    // Requests are streams of their own, and order is kept within a stream only.
    const arrived = key === 'requests' ? received.toSorted((a, b) => a - b) : received;
    if (arrived.join() !== expected.join()) {
      faults.push(
        `${key}: sent ${sent.length}, received ${received.length}: [${received.slice(0, 8)}…] of [${sent.slice(0, 8)}…]`,
      );
    }
  }
  return { cuts, resumes, notRecovered, faults, peakUnread, messages };
}
