import { fromHex } from '../../../packages/protocol/src/base/testing/bytes.js';
import { accepted, fail, same } from '../expect.js';
import {
  BodyCodec,
  CloseCode,
  CloseReason,
  encodeControl,
  encodeControlJson,
  ProtocolError,
  type SessionCore,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { acceptOf, Driver, HELLO, SetUp } from './session-driver.js';
import { bytesOfText, JSON_TOKENS, type Target, textOf } from './target.js';

/**
 * A whole session core, driven by a script: the first byte sets it up, followed by records of an operation, a
 * length of two bytes (little-endian) and that many bytes.
 */

const Operation = {
  BINARY: 0,
  TEXT: 1,
  WAIT: 2,
  TIMEOUT: 3,
  DISCONNECT: 4,
  CONNECT: 5,
  SEND: 6,
  REQUEST: 7,
  REPLY: 8,
  CONSUME: 9,
  CLOSE: 10,
} as const;
const OPERATIONS = 11;

const MAX_RECORDS = 64;

function reply(core: SessionCore, streamId: number, kind: number): void {
  switch (kind % 5) {
    case 0:
      return core.channel.respond(streamId, PLAIN);
    case 1:
      return core.channel.chunk(streamId, PLAIN);
    case 2:
      return core.channel.end(streamId);
    case 3:
      return core.channel.fail(streamId, new ProtocolError('internal', 'failed'));
    default:
      return core.channel.cancel(streamId);
  }
}

const PLAIN = {
  codec: BodyCodec.PLAIN,
  bytes: bytesOfText('pong'),
  originalLength: 4,
  secret: false,
  metadata: undefined,
};

function play(script: Uint8Array): boolean {
  const driver = new Driver(script[0] ?? 0);
  let at = 1;
  for (let records = 0; at + 3 <= script.length && records < MAX_RECORDS; records++) {
    const operation = (script[at] as number) % OPERATIONS;
    const length = (script[at + 1] as number) | ((script[at + 2] as number) << 8);
    const payload = script.slice(at + 3, at + 3 + length);
    at += 3 + length;
    step(driver, operation, payload);
  }
  const refused = driver.core.state === 'closed';
  // Timeouts must end the session in every case.
  for (let i = 0; i < 100 && driver.core.nextTimeout() !== Infinity; i++) driver.timeOut();
  return refused;
}

function step(driver: Driver, operation: number, payload: Uint8Array): void {
  switch (operation) {
    case Operation.BINARY:
      return driver.receive(payload);
    case Operation.TEXT:
      return driver.receive(textOf(payload));
    case Operation.WAIT:
      return driver.wait((payload[0] ?? 1) * 100);
    case Operation.TIMEOUT:
      return driver.timeOut();
    case Operation.DISCONNECT:
      return driver.disconnect(payload.length % 2 === 0 ? CloseCode.ABNORMAL : CloseCode.NORMAL);
    case Operation.CONNECT:
      return driver.connect();
    case Operation.SEND:
      return driver.command(() => driver.core.channel.send(PLAIN));
    case Operation.REQUEST:
      return driver.command(() => driver.core.channel.request(PLAIN));
    case Operation.REPLY:
      return driver.command(() => reply(driver.core, payload[0] ?? 1, payload[1] ?? 0));
    case Operation.CONSUME:
      return driver.consume();
    case Operation.CLOSE:
      return driver.close();
    default:
      return fail(`unknown operation: ${operation}`);
  }
}

function record(operation: number, payload: Uint8Array = new Uint8Array(0)): number[] {
  return [operation, payload.length & 0xff, payload.length >> 8, ...payload];
}

function script(setUp: number, ...records: readonly number[][]): Uint8Array {
  return Uint8Array.from([setUp, ...records.flat()]);
}

const PING = { type: 'PING', sessionId: 's', timestamp: 1, payload: {} } as const;
const CLOSE = {
  type: 'CLOSE',
  sessionId: 's',
  timestamp: 1,
  payload: { reason: CloseReason.NORMAL, message: '' },
} as const;
const LINKED = SetUp.ESTABLISHED | SetUp.LINK;

function seeds(): Uint8Array[] {
  const link = [
    '10000068656c6c6f',
    '1101007b7d',
    '110110',
    '130100',
    '1401',
    '1601',
    '1803',
    '190080808001',
    '1801',
  ];
  const received = record(Operation.BINARY, encodeControl(PING));
  return [
    script(0, record(Operation.BINARY, encodeControl(HELLO)), record(Operation.BINARY, encodeControl(HELLO))),
    script(SetUp.JSON, record(Operation.TEXT, bytesOfText(encodeControlJson(HELLO)))),
    script(
      LINKED,
      ...link.map((frame) => record(Operation.BINARY, fromHex(frame))),
      record(Operation.CONSUME),
    ),
    script(
      LINKED | SetUp.CLIENT,
      record(Operation.REQUEST),
      record(Operation.BINARY, fromHex('1301006869')),
      record(Operation.BINARY, fromHex('1401')),
    ),
    script(
      LINKED,
      record(Operation.BINARY, fromHex('1101006869')),
      record(Operation.REPLY, Uint8Array.of(1, 1)),
      record(Operation.REPLY, Uint8Array.of(1, 2)),
    ),
    script(
      LINKED | SetUp.CONTEXT,
      ...['100004007e3b4bd47b226e223a317d', '1000040a05019f18783e3232', '110104007e3b4bd47b226e223a317d'].map(
        (frame) => record(Operation.BINARY, fromHex(frame)),
      ),
    ),
    script(
      LINKED | SetUp.CONTEXT | SetUp.CLIENT,
      record(Operation.REQUEST),
      ...['130104007b226e223a317d', '1301040405013232', '140100000000'].map((frame) =>
        record(Operation.BINARY, fromHex(frame)),
      ),
    ),
    script(
      LINKED,
      record(Operation.SEND),
      record(Operation.TIMEOUT),
      received,
      record(Operation.WAIT, Uint8Array.of(255)),
    ),
    script(
      SetUp.ESTABLISHED,
      record(Operation.TEXT, bytesOfText('plain')),
      record(Operation.CLOSE),
      record(Operation.BINARY, encodeControl(CLOSE)),
    ),
    script(
      LINKED | SetUp.RESUME,
      record(Operation.SEND),
      record(Operation.DISCONNECT),
      record(Operation.CONNECT),
      received,
    ),
    script(
      LINKED | SetUp.RESUME | SetUp.CLIENT,
      record(Operation.DISCONNECT),
      record(Operation.CONNECT),
      received,
    ),
    script(LINKED | SetUp.CLIENT, record(Operation.CLOSE), record(Operation.BINARY, encodeControl(CLOSE))),
    ...seedsFrom('m2m-messages.json', 'hello', 'data', 'response').map((text) =>
      script(SetUp.JSON, record(Operation.TEXT, text)),
    ),
    ...seedsFrom('m2m-frame.json', 'encode_hex')
      .slice(0, 4)
      .map((frame) => script(SetUp.ESTABLISHED, record(Operation.BINARY, frame))),
    ...seedsFrom('avp-frame.json', 'hex')
      .slice(0, 4)
      .map((frame) => script(SetUp.ESTABLISHED, record(Operation.BINARY, frame))),
  ];
}

const session: Target = {
  name: 'session-frames',
  tokens: [
    ...JSON_TOKENS,
    ...[
      encodeControl(HELLO),
      encodeControl(PING),
      encodeControl(CLOSE),
      encodeControl(acceptOf({ link: '{}' })),
    ],
    ...['100000', '110100', '130100', '1401', '1501', '1601', '1801', '190010', '000a', '23'].map(fromHex),
    ...Object.values(Operation).map((operation) => Uint8Array.from(record(operation))),
  ],
  seeds: seeds(),
  run: play,
  recheck() {
    const driver = new Driver(LINKED);
    same(driver.core.state, 'established', 'a good session');
    driver.receive(fromHex('10000068656c6c6f'));
    same(driver.core.state, 'established', 'a good session after a message');
    accepted(() => driver.core.channel.send(PLAIN), 'a message');
  },
};

export const SESSION_TARGETS: readonly Target[] = [session];
