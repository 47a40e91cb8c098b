import { accepted, fail, holds, refused, same } from './expect.js';
import { Fields } from './fields.js';
import {
  type Agreement,
  agree,
  type Capability,
  capabilityOf,
  speaks,
  statedBy,
  supportOf,
} from './m2m-negotiation.js';
import {
  type Algorithm,
  BodyCodec,
  CloseCode,
  CloseReason,
  type ControlMessage,
  createSession,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  decodeControlJson,
  decodeText,
  type EncodingName,
  type SessionCore,
  type SessionEvent,
  Subprotocol,
} from './subject.js';

/**
 * Replays a session of the reference: our server receives its client's messages, our client receives its
 * server's answers. Both ends must follow the protocol page (section 2), from which the reference deviates in
 * places: its two ends may choose different algorithms.
 */
export function checkSession(given: Fields): void {
  const offer = capabilityOf(envelope(given.text('hello')).payload);
  const answer = envelope(given.text('response'));
  const support = supportOf(offer, answer);
  checkServer(given, offer, support, answer);
  checkClient(given, offer, answer);
}

/** An established session ignores an envelope of an unknown type. */
export function checkIgnored(text: string): void {
  const end = new End('client', SOMETHING);
  end.core.handleConnected(0);
  const accept = { version: '1.0', algorithms: ['NONE'], encoding: null };
  end.receive(
    JSON.stringify({ type: 'ACCEPT', session_id: 'sess_conformance', timestamp: 0, payload: accept }),
  );
  same(end.core.state, 'established', 'state before');
  end.receive(text);
  same(end.core.state, 'established', 'state after an unknown message');
  holds(end.take('warning').length > 0, 'an unknown message caused no warning');
}

const SOMETHING: Capability = {
  shape: 'flat',
  version: '1.0',
  algorithms: ['NONE'],
  encodings: [],
  preferred: null,
  maxPayloadSize: 0,
  scanning: false,
  agentId: undefined,
  extensions: {},
};

const SESSION_ID = 'sess_conformance';

/** The ID that the server gives its session: that of the vector's ACCEPT, or any. */
function sessionIdOf(answer: Envelope): string {
  return answer.sessionId ?? SESSION_ID;
}

function checkServer(given: Fields, offer: Capability, support: Capability, answer: Envelope): void {
  const open = () => {
    const end = new End('server', support);
    end.core.handleConnected(0);
    end.receive(given.text('hello'));
    same(end.take('hello').length, 1, 'HELLO at the application');
    end.core.accept(sessionIdOf(answer), 0);
    return end;
  };
  const server = open();
  const expected = agree(offer, support);
  const reply = messageOf(server.transmitted());
  if ('reject' in expected) {
    if (reply.type !== 'REJECT') return fail(`the server answered ${reply.type}, expected REJECT`);
    same(reply.payload.code, expected.reject, 'code of our REJECT');
    same(server.core.state, 'closed', 'state of the server after REJECT');
    return;
  }
  if (reply.type !== 'ACCEPT') return fail(`the server answered ${reply.type}, expected ACCEPT`);
  same(server.core.state, 'established', 'state of the server');
  same(reply.sessionId, sessionIdOf(answer), 'session_id of our ACCEPT');
  same(reply.payload.shape, offer.shape, 'shape of our ACCEPT');
  const { algorithms } = sameAgreement(server, expected.agreements);
  same([...(reply.payload.algorithms ?? offer.algorithms)], algorithms, 'algorithms of our ACCEPT');

  if (given.has('data')) checkData(server, given, algorithms);
  if (given.has('close') && server.core.state === 'established') {
    server.receive(given.text('close'));
    same(messageOf(server.transmitted()).type, 'CLOSE', 'answer to CLOSE');
    same(server.core.state, 'closed', 'state of the server after CLOSE');
  }
  if (given.has('second_hello')) {
    const other = open();
    other.transmitted();
    other.receive(given.text('hello'));
    same(other.core.state, 'closed', 'state of the server after a second HELLO');
    same(other.take('disconnect')[0]?.closeCode, CloseCode.BAD_FRAME, 'close code after a second HELLO');
  }
}

/** The agreement of an end must be one of those that are possible. */
function sameAgreement({ core }: End, agreements: readonly Agreement[]): Agreement {
  const encoding = core.negotiated?.encoding ?? null;
  const agreement = agreements.find((one) => one.encoding === encoding);
  if (agreement === undefined) {
    const choices = agreements.map((one) => one.encoding ?? 'none').join(' or ');
    return fail(`the encoding is ${encoding ?? 'none'}, expected ${choices}`);
  }
  same([...(core.negotiated?.algorithms ?? [])], agreement.algorithms, 'algorithms agreed on');
  return agreement;
}

/** A nested ACCEPT contains the server's lists: its own choice is valid as well as the client's. */
function choicesOf(
  offer: Capability,
  { preferred }: Capability,
  agreements: readonly Agreement[],
): readonly Agreement[] {
  const [first] = agreements;
  if (preferred === null || !offer.encodings.includes(preferred) || first === undefined) return agreements;
  return [...agreements, { encoding: preferred, algorithms: first.algorithms }];
}

/** Content in an agreed algorithm equals what the reference read; in another algorithm it is an error. */
function checkData(server: End, given: Fields, algorithms: readonly string[]): void {
  const data = messageOf(given.text('data'));
  if (data.type !== 'DATA') return fail(`data is ${data.type}`);
  server.receive(given.text('data'));
  const [event] = server.take('message');
  if (!algorithms.includes(data.payload.algorithm)) {
    same(
      server.take('disconnect')[0]?.closeCode,
      CloseCode.BAD_FRAME,
      'close code after an algorithm not agreed on',
    );
    return;
  }
  if (event === undefined) return fail(`the data did not arrive: ${server.failure()}`);
  const { content } = data.payload;
  if (typeof content !== 'string') return fail('the content is not text');
  const text = accepted(() => decodeText(content), 'the content');
  same(text, given.text('server_decompressed'), 'content');
  same(algorithmOf(event.body.codec), data.payload.algorithm, 'algorithm of the data at the application');
}

/** The name of a body codec's algorithm. */
function algorithmOf(codec: BodyCodec): string | undefined {
  const name = Object.entries(BodyCodec).find(([, value]) => value === codec)?.[0];
  return name === 'PLAIN' ? 'NONE' : name;
}

function checkClient(given: Fields, offer: Capability, answer: Envelope): void {
  const client = new End('client', offer);
  client.core.handleConnected(0);
  const hello = messageOf(client.transmitted());
  if (hello.type !== 'HELLO') return fail(`the client's first message is ${hello.type}`);
  same(hello.payload.shape, offer.shape, 'shape of our HELLO');
  same([...hello.payload.algorithms], offer.algorithms, 'algorithms of our HELLO');
  same([...hello.payload.encodings], offer.encodings, 'encodings of our HELLO');

  client.receive(given.text('response'));
  if (answer.type === 'REJECT') {
    client.core.handleDisconnected(CloseCode.BAD_FRAME, '', 0);
    const error = client.take('ended')[0]?.error;
    same(error?.code, 'rejected', 'error of the client');
    same(error?.reject?.code, answer.payload.text('code'), 'code of the REJECT');
    same(client.core.state, 'closed', 'state of the client after REJECT');
    return;
  }
  const accept = statedBy(answer.payload);
  const expected = agree(offer, accept);
  if (!speaks(accept.version) || 'reject' in expected || goesBeyond(accept, offer)) {
    same(client.core.state, 'closed', 'state of the client after an unacceptable ACCEPT');
    same(client.take('disconnect')[0]?.closeCode, CloseCode.BAD_FRAME, 'close code of the client');
    return;
  }
  same(client.core.state, 'established', `state of the client (${client.failure()})`);
  same(client.core.id, answer.sessionId, 'session id of the client');
  sameAgreement(client, choicesOf(offer, accept, expected.agreements));

  client.core.close(CloseReason.NORMAL, '', 0);
  same(messageOf(client.transmitted()).type, 'CLOSE', 'last message of the client');
  same(client.core.state, 'closing', 'state of the client after its CLOSE');
  const body = {
    codec: BodyCodec.PLAIN,
    bytes: new Uint8Array(1),
    originalLength: 1,
    secret: false,
    metadata: undefined,
  };
  refused(() => client.core.channel.send(body), 'sending after CLOSE');
}

/** Whether a flat ACCEPT, which states an agreement, contains something that was not offered. */
function goesBeyond(accept: Capability, offer: Capability): boolean {
  if (accept.shape === 'nested') return false;
  return (
    accept.algorithms.some((name) => !offer.algorithms.includes(name)) ||
    accept.encodings.some((name) => !offer.encodings.includes(name))
  );
}

/** One of our session cores, driven by hand. */
class End {
  readonly core: SessionCore;
  readonly #events: SessionEvent[] = [];

  constructor(
    role: 'client' | 'server',
    { shape, algorithms, encodings, preferred, scanning, maxPayloadSize }: Capability,
  ) {
    // Our client prefers the first of its list.
    const ordered = encodings.toSorted((a, b) => Number(b === preferred) - Number(a === preferred));
    this.core = createSession({
      role,
      subprotocol: Subprotocol.JSON,
      shape,
      capabilities: {
        algorithms: algorithms as Algorithm[],
        encodings: (role === 'client' ? encodings : ordered) as EncodingName[],
        vocabularies: {},
        securityScanning: scanning,
        maxPayloadSize,
        extensions: {},
      },
      limits: DEFAULT_LIMITS,
      timers: DEFAULT_TIMERS,
    });
  }

  receive(text: string): void {
    this.core.handleMessage(text, 0);
    // Answers are written before their effects are examined.
    this.#drain();
  }

  /** Removes and returns the events of one type. */
  take<Type extends SessionEvent['type']>(type: Type): Extract<SessionEvent, { type: Type }>[] {
    this.#drain();
    const taken = this.#events.filter((event) => event.type === type);
    for (const event of taken) this.#events.splice(this.#events.indexOf(event), 1);
    return taken as Extract<SessionEvent, { type: Type }>[];
  }

  /** The next frame; everything after it is written too. */
  transmitted(): string {
    const frame = this.core.pollTransmit();
    while (this.core.pollTransmit() !== undefined);
    this.#drain();
    return typeof frame === 'string' ? frame : fail('no text was sent');
  }

  /** Why the session ended, in readable form. */
  failure(): string {
    const ended = this.#events.find((event) => event.type === 'ended');
    return ended?.type === 'ended' ? (ended.error?.message ?? 'ended as agreed') : 'still open';
  }

  #drain(): void {
    for (let event = this.core.pollEvent(); event !== undefined; event = this.core.pollEvent()) {
      this.#events.push(event);
    }
  }
}

interface Envelope {
  readonly type: string;
  readonly sessionId: string | undefined;
  readonly payload: Fields;
}

function envelope(text: string): Envelope {
  const fields = new Fields(JSON.parse(text) as Record<string, unknown>);
  return {
    type: fields.text('type'),
    sessionId: fields.maybe('text', 'session_id'),
    payload: fields.has('payload') ? fields.object('payload') : new Fields({}),
  };
}

function messageOf(text: string): ControlMessage {
  const message = accepted(() => decodeControlJson(text), 'an envelope');
  return message.type === 'UNKNOWN' ? fail(`the type ${message.name} is unknown`) : message;
}
