import type { ContextUse } from '@parlance/protocol';
import type { OwnHost } from '../../server/features/own-feature.js';
import { addressKey } from '../../transport/http/addresses.js';
import type { MetricKit } from './metric-kit.js';
import type { Totals } from './totals.js';

const DIRECTIONS = ['sent', 'received'] as const;

/** Reads what the sessions of a server are doing, and what they have sent and received. */
export function sessionMetrics(
  host: Pick<OwnHost, 'sessions' | 'connections' | 'greetings' | 'unserved' | 'drainProgress' | 'memory'>,
  totalsOf: () => Totals,
  kit: MetricKit,
): () => void {
  const connections = kit.gauge('connections', 'Open connections, including those without a session yet.');
  const sessions = kit.gauge('sessions', 'Sessions, by whether they have a connection.', ['state']);
  const blocked = kit.gauge('sessions_blocked', 'Sessions that wait for credit from their peer.');
  const silent = kit.gauge('sessions_silent', 'Connected sessions whose client answers no PING.');
  const streams = kit.gauge('streams_open', 'Open streams of all sessions, in both directions.');
  const queued = kit.gauge('queued_bytes', 'Bytes of bodies waiting to be written.');
  const context = kit.gauge('context_bytes', 'Bytes of messages that are kept to code others against.');
  const used = kit.gauge('limit_used', 'How much of a limit is taken where most of it is, by its name.', [
    'name',
  ]);
  const draining = kit.gauge('draining', '1 while the server drains, else 0.');
  const wireBytes = kit.counter(
    'wire_bytes',
    'Bytes on the sockets of sessions: messages and all WebSocket frames with their headers, without HTTP, TLS and TCP.',
    ['direction'],
  );
  const perAlgorithm = ['direction', 'algorithm'] as const;
  const messages = kit.counter('messages', 'Messages, requests and parts.', perAlgorithm);
  const codedBytes = kit.counter('coded_bytes', 'Bytes of bodies as transferred.', perAlgorithm);
  const contentBytes = kit.counter('content_bytes', 'Bytes of bodies before coding.', perAlgorithm);
  const bodies = kit.counter(
    'bodies',
    'Bodies, by whether they are messages, requests, or parts of replies.',
    ['direction', 'kind'],
  );
  const tokens = kit.counter('tokens', 'Token IDs on the wire.', ['direction']);
  const tensorBytes = kit.counter('tensor_bytes', 'Bytes of tensors.', ['direction']);
  const tensors = kit.counter('tensors', 'Tensors that were sent whole, or have begun to arrive.', [
    'direction',
  ]);

  const readSessions = (): void => {
    const counts = { connected: 0, suspended: 0, blocked: 0, silent: 0, streams: 0, queued: 0, context: 0 };
    const [addresses, principals] = [new Map<string, number>(), new Map<string, number>()];
    for (const session of host.sessions.values()) {
      add(addresses, addressKey(session.ip));
      if (session.principal !== undefined) add(principals, session.principal);
      const stats = session.stats();
      counts[session.state === 'suspended' ? 'suspended' : 'connected']++;
      counts.streams += stats.openStreams;
      counts.queued += stats.queuedBytes;
      counts.context += bytesOf(stats.context);
      if (stats.blockedOnCredit) counts.blocked++;
      if (session.silentMs !== undefined) counts.silent++;
    }
    sessions.set({ state: 'connected' }, counts.connected);
    sessions.set({ state: 'suspended' }, counts.suspended);
    blocked.set(counts.blocked);
    silent.set(counts.silent);
    streams.set(counts.streams);
    queued.set(counts.queued);
    context.set(counts.context);
    used.set({ name: 'sessionsPerIp' }, most(addresses));
    used.set({ name: 'sessionsPerPrincipal' }, most(principals));
    used.set({ name: 'memory' }, host.memory.used);
  };

  const readTotals = (): void => {
    const totals = totalsOf();
    for (const each of [wireBytes, messages, codedBytes, contentBytes, bodies, tokens, tensors, tensorBytes])
      each.reset();
    for (const direction of DIRECTIONS) {
      const { wireBytes: bytes, tokens: ids, byAlgorithm, byKind } = totals[direction];
      wireBytes.inc({ direction }, bytes + host.unserved[direction]);
      tokens.inc({ direction }, ids);
      for (const [kind, count] of Object.entries(byKind)) bodies.inc({ direction, kind }, count);
      for (const [algorithm, stats] of byAlgorithm) {
        messages.inc({ direction, algorithm }, stats.messages);
        codedBytes.inc({ direction, algorithm }, stats.codedBytes);
        contentBytes.inc({ direction, algorithm }, stats.contentBytes);
      }
      const avp = byAlgorithm.get('AVP');
      tensors.inc({ direction }, avp?.messages ?? 0);
      tensorBytes.inc({ direction }, avp?.contentBytes ?? 0);
    }
  };

  return () => {
    readSessions();
    readTotals();
    const carrying = [...host.connections].filter(({ hasWire }) => hasWire).length;
    connections.set(carrying + host.greetings.size);
    draining.set(host.drainProgress === undefined ? 0 : 1);
  };
}

const add = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
const most = (counts: ReadonlyMap<string, number>) =>
  [...counts.values()].reduce((all, each) => Math.max(all, each), 0);

function bytesOf(context: { readonly sent: ContextUse; readonly received: ContextUse } | undefined): number {
  return context === undefined ? 0 : context.sent.bytes + context.received.bytes;
}
