import { BodyCodec, type Limits, ProtocolError, type ReceivedBody, Subprotocol } from '@parlance/protocol';
import {
  CONTAINER_FORMAT,
  decodeSnapshot,
  encodeSnapshot,
  type Fields,
  get,
  incarnationOf,
  isFields,
  isStatedAgentId,
  listsOf,
  orNull,
  ReceivedMessage,
  trimmed,
  ValueList,
} from '@parlance/protocol/internal';
import { MAX_PRINCIPAL_LENGTH } from '../../session/admission/authentication.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { MovableMailbox } from '../../session/movable-mailbox.js';
import { assertDataSize, type ClientInfo, MAX_USER_AGENT } from '../../session/served-session.js';

/**
 * A session as it goes from node to node:
 *
 *     head    whose it is, and since when
 *     data    the JSON of `ServerSession.data`
 *     parts   state that features of its server have saved, by name
 *     link    the snapshot of its core, and messages that nothing has handled
 *
 * The record of a session has the same in fields of its own. An `AdoptedSession` drives a session of either form.
 */
export interface MovedSession {
  readonly id: string;
  readonly subprotocol: Subprotocol;
  /** The snapshot of the core. */
  readonly core: Uint8Array;
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  readonly isAnonymous: boolean;
  /** The address of the client that the session counts for. */
  readonly ip: string;
  /** Of its newest connection. */
  readonly client: ClientInfo;
  /** When it began, in Unix milliseconds. */
  readonly since: number;
  /** The JSON of `ServerSession.data`. */
  readonly data: string | undefined;
  /** Messages of its connection that nothing has handled. */
  readonly input: readonly (Uint8Array | string)[];
  /** Messages that `onSession` has not read. */
  readonly unread: readonly ReceivedBody[];
  /** State that features of its server have saved, by name. */
  readonly parts: Fields;
}

const MAX_IP = 64;
const SECRET = 1;

/** Whether its messages can move: tensors cannot. */
export function isMovable({ mailbox }: ServerEndpoint): boolean {
  return [...(mailbox as MovableMailbox).unread].every(
    (message) => message instanceof ReceivedMessage && message.received.codec !== BodyCodec.AVP,
  );
}

/** @throws {ProtocolError} `invalid_argument` unless the session is quiet, `message_too_large` over 64 MiB. */
export function encodeMoved(
  session: ServerEndpoint,
  parts: Readonly<Record<string, unknown>>,
  now: number,
): Uint8Array {
  const { core, principal, agentId, isAnonymous, ip, dataText, since } = session;
  const { remoteAddress, userAgent } = session.client;
  const unread = [...(session.mailbox as MovableMailbox).unread];
  const fields = {
    head: trimmed([
      ...[session.id, core.subprotocol, ip, isAnonymous, orNull(principal), orNull(agentId)],
      ...[since, remoteAddress, orNull(userAgent)],
    ]),
    data: dataText,
    parts: Object.keys(parts).length === 0 ? undefined : parts,
    link: {
      core: core.snapshot(now),
      input: session.input.length === 0 ? undefined : session.input,
      unread: unread.length === 0 ? undefined : unread.map((each) => receivedValues(each as ReceivedMessage)),
    },
  };
  return encodeSnapshot(fields, CONTAINER_FORMAT);
}

/**
 * @throws {ProtocolError} `unknown_version`, `truncated`, `bad_checksum`, `message_too_large`, `bad_message` and other
 * codes of MessagePack.
 */
export function decodeMoved(bytes: Uint8Array, limits: Limits): MovedSession {
  const fields = decodeSnapshot(bytes, CONTAINER_FORMAT);
  const list = new ValueList(get(fields, 'head'), 'the session');
  const id = list.text(MAX_IP);
  if (incarnationOf(id) === undefined) throw list.bad('one of a cluster');
  const subprotocol = list.text(MAX_IP);
  if (!isSubprotocol(subprotocol)) throw list.bad('of a subprotocol that is known');
  const ip = list.text(MAX_IP);
  const isAnonymous = list.flag();
  const principal = list.optional((one) => one.text(MAX_PRINCIPAL_LENGTH));
  const agentId = list.optional((one) => one.text(MAX_IP * 2));
  if (agentId !== undefined && !isStatedAgentId(agentId)) throw list.bad('with a valid agentId');
  const data = new ValueList([get(fields, 'data') ?? null], 'the data').optional((one) => one.text(Infinity));
  if (data !== undefined) assertData(data);
  const since = list.optional((one) => one.count(Number.MAX_SAFE_INTEGER)) ?? 0;
  const remoteAddress = list.optional((one) => one.text(MAX_IP)) ?? ip;
  const userAgent = list.optional((one) => one.text(MAX_USER_AGENT));
  const client = { remoteAddress, userAgent };
  const link = get(fields, 'link');
  if (!isFields(link)) throw list.bad('with a link');
  const core = new ValueList([get(link, 'core')], 'the core').bytes();
  const input =
    get(link, 'input') === undefined ? [] : readInput(new ValueList(get(link, 'input'), 'the input'));
  const unread = listsOf(get(link, 'unread'), 'a message', (one) => readReceived(one, limits));
  const parts = get(fields, 'parts') ?? {};
  if (!isFields(parts)) throw list.bad('with what its parts have saved');
  return {
    id,
    subprotocol,
    core,
    principal,
    agentId,
    isAnonymous,
    ip,
    client,
    since,
    data,
    input,
    unread,
    parts,
  };
}

/** @throws {ProtocolError} `bad_message`, `message_too_large`. */
function assertData(text: string): void {
  assertDataSize(text);
  try {
    JSON.parse(text);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'the data of the session must be JSON', { cause });
  }
}

function isSubprotocol(name: string): name is Subprotocol {
  return (Object.values(Subprotocol) as readonly string[]).includes(name);
}

/** WebSocket messages, which are checked when they are handled. */
function readInput(list: ValueList): (Uint8Array | string)[] {
  return list.rest((one) => {
    const value = one.value();
    if (typeof value === 'string') return value;
    if (value instanceof Uint8Array) return new Uint8Array(value);
    throw one.bad('messages');
  });
}

/** A message that has arrived. */
function receivedValues({ received, securityStatus: status }: ReceivedMessage): readonly unknown[] {
  const { codec, bytes, originalLength, content, opened, secret, metadata, charge } = received;
  const scan =
    status && trimmed([status.scanned, status.safe, orNull(status.threatType), orNull(status.confidence)]);
  return trimmed([
    ...[codec, secret ? SECRET : 0, charge, bytes, orNull(originalLength)],
    ...[content, opened, metadata, scan].map(orNull),
  ]);
}

function readReceived(
  list: ValueList,
  { maxMessageSize, maxMetadataSize, sessionWindow }: Limits,
): ReceivedBody {
  const codec = list.count(BodyCodec.DICTIONARY) as ReceivedBody['codec'];
  if (codec === BodyCodec.AVP) throw list.bad('no tensor');
  const secret = (list.count(SECRET) & SECRET) !== 0;
  const charge = list.count(sessionWindow + maxMessageSize);
  const bytes = list.bytes(maxMessageSize);
  const originalLength = list.optional((one) => one.count(maxMessageSize));
  const content = list.optional((one) => one.bytes(maxMessageSize));
  const opened = list.optional((one) => one.bytes(maxMessageSize));
  const metadata = list.optional((one) => one.bytes(maxMetadataSize));
  const scan = list.optional((one) => one.value());
  if (codec === BodyCodec.CONTEXT && content === undefined)
    throw list.bad('decoded if it was coded in context');
  const securityStatus = scan === undefined ? undefined : readStatus(new ValueList(scan, 'a scan'));
  return { codec, bytes, originalLength, content, opened, secret, metadata, charge, securityStatus };
}

function readStatus(list: ValueList): ReceivedBody['securityStatus'] {
  return {
    scanned: list.flag(),
    safe: list.flag(),
    threatType: list.optional((one) => one.text(MAX_IP * 2)),
    confidence: list.optional((one) => one.number()),
  };
}
