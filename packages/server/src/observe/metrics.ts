import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Refusal } from '../admission/admission.js';
import type { Observed } from './observed.js';
import type { RequestOutcome } from './tracing.js';

/**
 * The server's metrics in Prometheus format: base units, and labels with a handful of values, never an ID.
 * Traffic is not counted here but summed up from the sessions when the metrics are collected, so metrics cost
 * nothing per message.
 */
export interface Metrics {
  readonly contentType: string;
  /** All metrics in Prometheus text format. */
  expose(): Promise<string>;
  handleAccepted(resumed: boolean): void;
  handleRefused(refusal: Refusal): void;
  handleEnded(code: string): void;
  handleRequest(outcome: RequestOutcome, seconds: number): void;
}

/** Seconds: from a cached answer to a long completion. */
const DURATION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export function createMetrics(observed: Observed): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `parlance_${name}`, help, labelNames: [...labelNames], registers });
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name: `parlance_${name}_total`, help, labelNames: [...labelNames], registers });

  const connections = gauge('connections', 'Open connections, including those without a session yet.');
  const sessions = gauge('sessions', 'Sessions, by whether they have a connection.', ['state']);
  const blocked = gauge('sessions_blocked', 'Sessions that wait for credit from their peer.');
  const streams = gauge('streams_open', 'Open streams of all sessions, in both directions.');
  const queued = gauge('queued_bytes', 'Bytes of bodies waiting to be written.');
  const kept = gauge('replies_kept', 'Replies that are kept, by whether their handlers run.', ['state']);
  const keptBytes = gauge('replies_kept_bytes', 'Bytes of memory of all kept replies.');
  const followers = gauge('replies_followers', 'Sessions that follow a reply whose handler runs.');
  const draining = gauge('draining', '1 while the server drains, else 0.');
  const accepted = counter('sessions_accepted', 'Sessions accepted and sessions resumed.', ['kind']);
  const refused = counter('sessions_refused', 'Clients that were refused, by REJECT and close code.', [
    'code',
    'close_code',
  ]);
  const ended = counter('sessions_ended', 'Sessions ended, by reason.', ['reason']);
  const requests = counter('requests', 'Requests answered, by outcome.', ['outcome']);
  const duration = new Histogram({
    name: 'parlance_request_duration_seconds',
    help: 'Time from a request to the end of its reply.',
    buckets: DURATION_BUCKETS,
    registers,
  });
  const wireBytes = counter('wire_bytes', 'Bytes of all WebSocket messages, including control messages.', [
    'direction',
  ]);
  const perAlgorithm = ['direction', 'algorithm'] as const;
  const messages = counter('messages', 'Messages, requests and parts.', perAlgorithm);
  const codedBytes = counter('coded_bytes', 'Bytes of bodies as transferred.', perAlgorithm);
  const contentBytes = counter(
    'content_bytes',
    'Bytes of bodies before coding; for bodies received as token IDs, coded bytes.',
    perAlgorithm,
  );

  const observeSessions = (): void => {
    const counts = { connected: 0, suspended: 0, blocked: 0, streams: 0, queued: 0 };
    for (const session of observed.sessions()) {
      const stats = session.stats();
      counts[session.state === 'suspended' ? 'suspended' : 'connected']++;
      counts.streams += stats.openStreams;
      counts.queued += stats.queuedBytes;
      if (stats.blockedOnCredit) counts.blocked++;
    }
    sessions.set({ state: 'connected' }, counts.connected);
    sessions.set({ state: 'suspended' }, counts.suspended);
    blocked.set(counts.blocked);
    streams.set(counts.streams);
    queued.set(counts.queued);
    connections.set(observed.connections);
    draining.set(observed.isDraining ? 1 : 0);
    const { running, usage } = observed.replies;
    kept.set({ state: 'running' }, running);
    kept.set({ state: 'over' }, Math.max(0, usage.replies - running));
    keptBytes.set(usage.bytes);
    followers.set(observed.replies.followers);
  };

  const observeCluster = clusterMetrics(observed.cluster, gauge, counter);

  const observeTotals = (): void => {
    const totals = observed.totals();
    for (const each of [wireBytes, messages, codedBytes, contentBytes]) each.reset();
    for (const direction of ['sent', 'received'] as const) {
      const { wireBytes: bytes, byAlgorithm } = totals[direction];
      wireBytes.inc({ direction }, bytes);
      for (const [algorithm, stats] of byAlgorithm) {
        messages.inc({ direction, algorithm }, stats.messages);
        codedBytes.inc({ direction, algorithm }, stats.codedBytes);
        contentBytes.inc({ direction, algorithm }, stats.contentBytes);
      }
    }
  };

  return {
    contentType: registry.contentType,
    async expose() {
      observeSessions();
      observeTotals();
      observeCluster();
      return await registry.metrics();
    },
    handleAccepted: (resumed) => accepted.inc({ kind: resumed ? 'resumed' : 'new' }),
    handleRefused: ({ code, closeCode }) => refused.inc({ code, close_code: String(closeCode) }),
    handleEnded: (reason) => ended.inc({ reason }),
    handleRequest(outcome, seconds) {
      requests.inc({ outcome });
      duration.observe(seconds);
    },
  };
}

/** A server on its own has no metrics of a cluster. */
function clusterMetrics(
  cluster: Observed['cluster'],
  gauge: (name: string, help: string) => Gauge,
  counter: <Label extends string>(name: string, help: string, labels: readonly Label[]) => Counter<Label>,
): () => void {
  if (cluster === undefined) return () => {};
  const nodes = gauge('cluster_nodes', 'Nodes of the cluster that count as alive, this one included.');
  const led = gauge('led_connections', 'Connections that this node leads to the nodes of their sessions.');
  const links = gauge('relay_links', 'Connections on which this node and others relay between their agents.');
  const labels = ['direction'] as const;
  const messages = counter('relay_messages', 'Messages between nodes that relay between agents.', labels);
  const bytes = counter('relay_bytes', 'Bytes of those messages.', labels);
  const moves = counter('moves', 'Sessions that have gone to other nodes, have come, or could not go yet.', [
    'outcome',
  ]);
  return () => {
    nodes.set(cluster.nodes);
    led.set(cluster.led);
    const { relayLinks, relayTraffic } = cluster;
    links.set(relayLinks);
    messages.reset();
    bytes.reset();
    messages.inc({ direction: 'sent' }, relayTraffic.messagesSent);
    messages.inc({ direction: 'received' }, relayTraffic.messagesReceived);
    bytes.inc({ direction: 'sent' }, relayTraffic.bytesSent);
    bytes.inc({ direction: 'received' }, relayTraffic.bytesReceived);
    moves.reset();
    for (const [outcome, count] of Object.entries(cluster.moves.counts)) moves.inc({ outcome }, count);
  };
}
