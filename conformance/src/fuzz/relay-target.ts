import { fromHex } from '../../../packages/protocol/src/base/testing/bytes.js';
import { outcomeOf, same } from '../expect.js';
import { encodeControl, type SessionCore } from '../subject.js';
import { AGENTS, createClient, PLAIN, RelayBench, STRANGER, STRANGERS_HELLO } from './relay-bench.js';
import { bytesOfText, type Target, tokens } from './target.js';

/**
 * A relay among agents, one of which follows a script: records of an operation, a length of two bytes
 * (little-endian) and that many bytes. The other agents must reach each other in every case.
 */

const Operation = {
  SAY: 0,
  /** One of the others sends a message to the stranger. */
  SEND: 1,
  ASK: 2,
  TENSOR: 3,
  CANCEL: 4,
  STALL: 5,
  CUT: 6,
  TAKE_OVER: 7,
  WAIT: 8,
} as const;
const OPERATIONS = 9;
const MAX_RECORDS = 48;

const HELLO = encodeControl(STRANGERS_HELLO);
const TENSOR_LENGTH = 70_000;

function play(script: Uint8Array): boolean {
  const bench = new RelayBench();
  bench.say(HELLO);
  let at = 0;
  for (let records = 0; at + 3 <= script.length && records < MAX_RECORDS; records++) {
    const operation = (script[at] as number) % OPERATIONS;
    const length = (script[at + 1] as number) | ((script[at + 2] as number) << 8);
    step(bench, operation, script.slice(at + 3, at + 3 + length));
    at += 3 + length;
  }
  const refused = !bench.isOpen;
  expectOthersTalk(bench);
  return refused;
}

function step(bench: RelayBench, operation: number, payload: Uint8Array): void {
  const [first = 0] = payload;
  const name = AGENTS[first % AGENTS.length] as (typeof AGENTS)[number];
  const command = (run: (core: SessionCore) => void) =>
    bench.command(name, (core) => void outcomeOf(() => run(core)));
  switch (operation) {
    case Operation.SAY:
      return bench.say(payload);
    case Operation.SEND:
      return command((core) => core.channel.send({ ...PLAIN, address: STRANGER }));
    case Operation.ASK:
      return command((core) => void core.channel.request({ ...PLAIN, address: STRANGER }));
    case Operation.TENSOR:
      return command((core) => {
        const length = Math.min(first * 1024 + 1, TENSOR_LENGTH);
        const agent = STRANGER;
        const whole = { payloadSize: TENSOR_LENGTH, totalLength: TENSOR_LENGTH, address: agent };
        const id = core.channel.transfer({ ...whole, first: new Uint8Array(length) });
        if (first % 3 === 0) core.channel.feed(id, new Uint8Array(TENSOR_LENGTH - length));
      });
    case Operation.CANCEL:
      return command((core) => core.channel.cancel(2 * first + 1));
    case Operation.STALL:
      return bench.stall(first % 2 === 0);
    case Operation.CUT:
      return bench.cut();
    case Operation.TAKE_OVER:
      bench.takeOver();
      return bench.say(HELLO);
    default:
      return bench.wait((first + 1) * 100);
  }
}

/** The agents that follow the protocol receive each other's messages, and nothing else. */
export function expectOthersTalk(bench: RelayBench): void {
  const [ada, bob] = AGENTS;
  const ofOthers = (heard: readonly string[]) => heard.filter((line) => !line.includes(STRANGER));
  bench.heard(ada);
  bench.heard(bob);
  bench.command(ada, (core) => core.channel.send({ ...PLAIN, address: bob }));
  bench.command(ada, (core) => void core.channel.request({ ...PLAIN, address: bob }));
  same(ofOthers(bench.heard(bob)), [`message ${ada} ping`, `request ${ada} ping`], `what ${bob} hears`);
  same(
    ofOthers(bench.heard(ada)).filter((line) => line.startsWith('response')),
    ['response  ping'],
    `what ${ada} hears`,
  );
}

/** Frames of an agent that follows the protocol and runs these commands. */
export function framesOf(...commands: readonly ((core: SessionCore) => void)[]): Uint8Array[] {
  const core = createClient();
  core.handleConnected(0);
  const taken = (): Uint8Array[] => {
    const frames: Uint8Array[] = [];
    for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
      if (typeof frame !== 'string') frames.push(frame.slice());
    return frames;
  };
  taken();
  core.handleMessage(ACCEPT, 0);
  for (const command of commands) command(core);
  return taken();
}

const ACCEPT = encodeControl({
  type: 'ACCEPT',
  sessionId: 'sess_00000000000000000000',
  timestamp: 0,
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encoding: 'CL100K_BASE',
    encodings: [],
    securityScanning: false,
    sessionTimeoutMs: 0,
    maxPayloadSize: 0,
    limits: {},
    extensions: { link: '{}', agents: '{}' },
  },
});

function record(operation: number, payload: Uint8Array = new Uint8Array(0)): number[] {
  return [operation, payload.length & 0xff, payload.length >> 8, ...payload];
}
const script = (...records: readonly number[][]): Uint8Array => Uint8Array.from(records.flat());
const saying = (...frames: readonly Uint8Array[]) => frames.map((frame) => record(Operation.SAY, frame));
const number = (value: number) => Uint8Array.of(value);
const json = (value: unknown) => {
  const bytes = bytesOfText(JSON.stringify(value));
  return { ...PLAIN, bytes, originalLength: bytes.length };
};

function seeds(): Uint8Array[] {
  const [agent] = AGENTS;
  const message = framesOf((core) => core.channel.send({ ...PLAIN, address: agent }));
  const tensor = framesOf(
    (core) =>
      void core.channel.transfer({
        payloadSize: 64,
        totalLength: 64,
        first: new Uint8Array(16),
        address: agent,
      }),
    (core) => core.channel.feed(1, new Uint8Array(48)),
  );
  const directory = (watch: boolean) =>
    framesOf((core) => void core.channel.request({ ...json({ watch }), address: '@directory' }));
  return [
    script(...saying(...message, ...message)),
    script(
      ...saying(...framesOf((core) => void core.channel.request({ ...PLAIN, address: agent }))),
      ...saying(fromHex('1501')),
    ),
    script(...saying(...framesOf((core) => core.channel.send({ ...PLAIN, address: 'absent' })))),
    script(...saying(...tensor)),
    script(...saying(...tensor.slice(0, 2)), record(Operation.CUT), record(Operation.WAIT, number(255))),
    script(...saying(...tensor.slice(0, 2)), record(Operation.TAKE_OVER), ...saying(...tensor)),
    script(...saying(...directory(false))),
    script(...saying(...directory(true)), record(Operation.TAKE_OVER), ...saying(fromHex('1501'))),
    // An empty M2M body; the others do not have M2M.
    script(record(Operation.ASK, number(1)), ...saying(fromHex('130202bb7b'))),
    // Streams of the server have even IDs: a part and the end, a response, an error.
    script(record(Operation.ASK, number(0)), ...saying(fromHex('1302006869'), fromHex('1402'))),
    script(record(Operation.ASK, number(1)), ...saying(fromHex('1202006869'))),
    script(
      record(Operation.ASK, number(1)),
      ...saying(fromHex('1302006869')),
      record(Operation.CANCEL, number(0)),
    ),
    script(record(Operation.ASK, number(0)), record(Operation.CUT), record(Operation.ASK, number(1))),
    script(record(Operation.TENSOR, number(3)), ...saying(fromHex('120200'))),
    script(record(Operation.TENSOR, number(1)), record(Operation.CANCEL, number(0))),
    script(
      record(Operation.STALL, number(0)),
      record(Operation.SEND, number(0)),
      record(Operation.TENSOR, number(9)),
      record(Operation.STALL, number(1)),
      record(Operation.TAKE_OVER),
    ),
  ];
}

const relay: Target = {
  name: 'relay-frames',
  tokens: [
    ...tokens(...AGENTS, STRANGER, '@directory', '@delivery', '{"watch":true}'),
    ...['1700', '100040', '110140', '110340', '1000c0', '115140', '120200', '130200', '1402', '1501'].map(
      fromHex,
    ),
    ...Object.values(Operation).map((operation) => Uint8Array.from(record(operation))),
  ],
  seeds: seeds(),
  run: play,
  // Every run ends by checking the other agents.
  recheck() {},
};

export const RELAY_TARGETS: readonly Target[] = [relay];
