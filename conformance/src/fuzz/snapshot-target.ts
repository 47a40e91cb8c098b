import { accepted, fail, holds, outcomeOf, same } from '../expect.js';
import {
  Algorithm,
  CloseCode,
  DEFAULT_TIMERS,
  EncodingName,
  platform,
  restoreSession,
  type ServerSessionCore,
  type SessionOptions,
  SNAPSHOT_FORMAT,
  Subprotocol,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { FUZZ_LIMITS, type Target, tokens } from './target.js';

/** Snapshots of sessions with the right CRC: what a server restores, or refuses, from the bytes of another one. */

const HEAD_SIZE = 5;
const NOW = 1_000;
const MAX_EFFECTS = 10_000;

const OPTIONS: SessionOptions = {
  role: 'server',
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    algorithms: Object.values(Algorithm),
    encodings: [EncodingName.CL100K_BASE],
    vocabularies: {},
    securityScanning: false,
    maxPayloadSize: 0,
    extensions: {
      link: '{}',
      resume: '{}',
      rebuild: '1',
      context: '{"max_bytes":9,"max_messages":1}',
      agents: '{}',
    },
  },
  limits: { ...FUZZ_LIMITS, maxMessageSize: 16 * 1024 * 1024, maxTransferSize: 1024 * 1024 * 1024 },
  timers: DEFAULT_TIMERS,
};

function withHead(body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEAD_SIZE + body.length);
  bytes[0] = SNAPSHOT_FORMAT;
  new DataView(bytes.buffer).setUint32(1, platform.crc32(body), true);
  bytes.set(body, HEAD_SIZE);
  return bytes;
}

const restore = (bytes: Uint8Array) => restoreSession(OPTIONS, bytes, NOW);

function run(input: Uint8Array): boolean {
  const outcome = outcomeOf(() => restore(withHead(input)));
  if (!outcome.accepted) return true;
  const core = outcome.value;
  if (core.canSnapshot) {
    // A state has only one written form.
    const again = accepted(() => core.snapshot(NOW), 'a snapshot of what was restored');
    const twice = accepted(() => restore(again).snapshot(NOW), 'the snapshot of that');
    same(Buffer.compare(again, twice), 0, 'two snapshots in a row');
  }
  use(core);
  return false;
}

/** The session answers each call without a throw, although it was restored from bytes of a stranger. */
function use(core: ServerSessionCore): void {
  try {
    drain(core);
    core.handleTimeout(NOW + 300);
    drain(core);
    core.handleDisconnected(CloseCode.ABNORMAL, '', NOW + 300);
    drain(core);
    holds(!Number.isNaN(core.nextTimeout()), 'the next timeout is not a number');
    core.unconfirmed();
    for (let i = 0; i < 100 && core.nextTimeout() !== Infinity; i++) {
      core.handleTimeout(core.nextTimeout());
      drain(core);
    }
  } catch (error) {
    fail(`a restored session threw: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

function drain(core: ServerSessionCore): void {
  for (let i = 0; core.pollEvent() !== undefined || core.pollTransmit() !== undefined; i++)
    holds(i < MAX_EFFECTS, 'the session never comes to rest');
}

const SEEDS = seedsFrom('session-snapshot.json', 'snapshot_hex').map((bytes) => bytes.slice(HEAD_SIZE));

const snapshot: Target = {
  name: 'snapshot',
  tokens: [
    ...tokens(
      'link',
      'outbox',
      'lanes',
      'frames',
      'kept',
      'context',
      'under_way',
      'partial',
      'granted',
      'rates',
    ),
    ...[
      [0x90],
      [0x91],
      [0xc0],
      [0xc3],
      [0x93, 1, 0, 0],
      [0xc4, 0],
      [0xcf, 0, 31, 255, 255, 255, 255, 255, 255],
    ].map((bytes) => Uint8Array.from(bytes)),
  ],
  seeds: SEEDS,
  run,
  recheck: () => {
    const [seed] = SEEDS;
    if (seed !== undefined) accepted(() => restore(withHead(seed)), 'a good snapshot');
  },
};

export const SNAPSHOT_TARGETS: readonly Target[] = [snapshot];
