import { accepted, outcomeOf, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import {
  CloseCode,
  DEFAULT_TIMERS,
  loadCodecs,
  resolveLimits,
  restoreSession,
  type ServerSessionCore,
  type SessionOptions,
} from './subject.js';

/**
 * Sessions that earlier builds have written, which this build continues: their fields, their frames on the next
 * connection, and what they make of the frames that follow.
 */
export const sessionSnapshot: Family = {
  file: 'session-snapshot.json',
  head: ['_meta'],
  sections: [
    { name: 'restored', check: checkRestored },
    { name: 'refused', check: checkRefused },
  ],
  prepare: () => loadCodecs(['CONTEXT']),
};

const NOW = 1_000;

/** A server whose extensions have other parameters than those that the snapshots have agreed on. */
const OPTIONS: SessionOptions = {
  role: 'server',
  subprotocol: 'm2m.v1',
  capabilities: {
    algorithms: ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'],
    encodings: ['CL100K_BASE'],
    vocabularies: {},
    securityScanning: false,
    maxPayloadSize: 0,
    extensions: {
      link: '{}',
      resume: '{}',
      rebuild: '1',
      context: '{"max_bytes":1,"max_messages":1}',
      agents: '{}',
    },
  },
  limits: resolveLimits(),
  timers: DEFAULT_TIMERS,
};

function checkRestored(given: Fields): void {
  const core = accepted(() => restoreSession(OPTIONS, given.hex('snapshot_hex'), NOW), 'the snapshot');
  same(summaryOf(core), given.raw('summary'), 'summary');
  same(writtenAfterResume(core, given.object('resume')), given.texts('writes_hex'), 'writes_hex');
  for (const hex of given.texts('receives_hex')) core.handleMessage(bytesOf(hex), NOW);
  same(eventsOf(core), given.raw('events'), 'events');
  same(core.state, 'established', 'the state afterwards');
}

function checkRefused(given: Fields): void {
  const outcome = outcomeOf(() => restoreSession(OPTIONS, given.hex('snapshot_hex'), NOW));
  same(outcome.accepted ? 'none' : outcome.code, given.text('code'), 'code');
}

function summaryOf({ id, state, channel, queuedBytes }: ServerSessionCore): unknown {
  const { openStreams, framesReceived, framesConfirmed, framesUnconfirmed, contextUse } = channel;
  return {
    ...{ id, state, open_streams: openStreams, frames_received: framesReceived },
    ...{
      frames_confirmed: framesConfirmed,
      frames_unconfirmed: framesUnconfirmed,
      queued_bytes: queuedBytes,
    },
    context:
      contextUse === undefined ? null : [contextUse.sent, contextUse.received].map(({ bytes }) => bytes),
  };
}

/** Link frames alone: ACCEPT has a new token. */
function writtenAfterResume(core: ServerSessionCore, resume: Fields): readonly string[] {
  core.handleDisconnected(CloseCode.ABNORMAL, '', NOW);
  const offer = {
    sessionId: core.id ?? '',
    token: resume.text('token'),
    attempt: resume.number('attempt'),
    received: resume.number('received'),
  };
  const isValid = core.resumeProof?.matches(offer.token) === true;
  same(isValid, true, 'the token of the snapshot');
  core.resume(offer, NOW);
  const frames: string[] = [];
  for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
    if (typeof frame !== 'string' && (frame[0] ?? 0) >> 4 === 1)
      frames.push(Buffer.from(frame).toString('hex'));
  while (core.pollEvent() !== undefined);
  return frames;
}

function eventsOf(core: ServerSessionCore): readonly unknown[] {
  const events: unknown[] = [];
  for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
    const stream = 'streamId' in event ? event.streamId : 0;
    if (!('body' in event)) events.push({ type: event.type, stream });
    else {
      const { content, bytes, address: agent = null } = event.body;
      events.push({ type: event.type, stream, agent, text: Buffer.from(content ?? bytes).toString() });
    }
  }
  return events;
}

function bytesOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'));
}
