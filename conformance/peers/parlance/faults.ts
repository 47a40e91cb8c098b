import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliDecompressSync } from 'node:zlib';
import WebSocket, { WebSocketServer } from 'ws';
import { type Fields, packed, unpacked } from '../../src/kit/bodies.js';
import { BINARY } from '../../src/kit/door.js';
import { bodyFrames, Codec, Cursor, Flag, frame, Kind, parseFrame, parseHead } from '../../src/kit/frames.js';

/**
 * Faults of our own peers, in parts of the specification that the peer in Python lacks. Each changes what one end of a
 * connection says, so that the product itself stays as it is.
 */

/** Turns a message into another one, several, or none. */
type Change = (message: Uint8Array) => Uint8Array | readonly Uint8Array[] | undefined;

export interface Fault {
  /** Of what the client says. */
  readonly client?: () => Change;
  /** Of what the server says. */
  readonly server?: () => Change;
  /** The former connections with the server are left, as soon as another one is open. */
  readonly leaves?: boolean;
}

/** No fault: a client may do that when it moves (`MOVE-2`). */
export const leavesEarly: Fault = { leaves: true };

const isControl = (bytes: Uint8Array): boolean => (bytes[0] ?? 0) >= 0x80;

/** Changes the payload of control messages of one type; `undefined` drops the message. */
const inControl =
  (type: string, change: (payload: Fields) => Fields | undefined): (() => Change) =>
  () =>
  (bytes) => {
    if (!isControl(bytes)) return bytes;
    const fields = unpacked(bytes, 'a control message');
    if (fields['type'] !== type) return bytes;
    const payload = change((fields['payload'] ?? {}) as Fields);
    return payload === undefined ? undefined : packed({ ...fields, payload });
  };

/** Changes `resume` of HELLO or ACCEPT. */
const inResume = (type: string, change: (resume: Fields) => Fields): (() => Change) =>
  inControl(type, (payload) => {
    const resume = payload['resume'] as Fields | undefined;
    return resume === undefined || resume === null ? payload : { ...payload, resume: change(resume) };
  });

/** Changes the metadata of bodies that come in one frame. */
const inMetadata =
  (kind: number, change: (metadata: Fields) => Fields): (() => Change) =>
  () =>
  (bytes) => {
    if (isControl(bytes)) return bytes;
    const parsed = parseFrame(bytes);
    if (parsed.kind !== kind || (parsed.flags & (Flag.META | Flag.MORE)) !== Flag.META) return bytes;
    const { agent, expanded, metadata, content } = parseHead(parsed);
    const changed = change(unpacked(metadata as Uint8Array, 'metadata'));
    const body = { codec: parsed.codec, bytes: content, metadata: packed(changed) };
    const [only] = bodyFrames(kind, parsed.stream, {
      ...body,
      ...(agent !== undefined && { agent }),
      ...(expanded !== undefined && { expanded }),
    });
    return only;
  };

/** Changes link frames of one kind. */
const inFrames =
  (kind: number, change: (bytes: Uint8Array) => Uint8Array): (() => Change) =>
  () =>
  (bytes) =>
    !isControl(bytes) && parseFrame(bytes).kind === kind ? change(bytes) : bytes;

const renamed =
  (change: (number: number, name: string) => readonly [number, string]) => (bytes: Uint8Array) => {
    const cursor = new Cursor(bytes.subarray(1), bytes);
    const [number, name] = change(cursor.varint('a number'), Buffer.from(cursor.rest()).toString());
    return frame(Kind.ALIAS, number, name);
  };

const kept = (resume: Fields): Fields => ((resume['rebuilt'] ?? {}) as Fields)['kept'] as Fields;
const withKept = (resume: Fields, change: (kept: Fields) => Fields): Fields =>
  kept(resume) === undefined
    ? resume
    : { ...resume, rebuilt: { ...(resume['rebuilt'] as Fields), kept: change(kept(resume)) } };

/** Whether a control message is of this type. */
const isOf = (type: string, bytes: Uint8Array): boolean =>
  isControl(bytes) && unpacked(bytes, 'a control message')['type'] === type;

/** A server that has said GOAWAY on another connection refuses here before it was read here. */
function refusing(): Change {
  let said = 0;
  return (bytes) => {
    if (isOf('GOAWAY', bytes)) said++;
    if (isControl(bytes) || said < 2) return bytes;
    const { kind, stream } = parseFrame(bytes);
    return kind === Kind.RESPONSE
      ? frame(Kind.ERROR, stream, packed({ code: 'draining', message: 'the server drains' }))
      : bytes;
  };
}

/** The first message behind an ACCEPT with a new link is lost. */
function losing(): Change {
  let loses = false;
  return (bytes) => {
    if (isOf('ACCEPT', bytes)) {
      const { resume } = (unpacked(bytes, 'ACCEPT')['payload'] ?? {}) as { resume?: Fields };
      loses = resume?.['rebuilt'] !== undefined;
    }
    if (isControl(bytes) || !loses) return bytes;
    const { kind, flags } = parseFrame(bytes);
    if (kind !== Kind.MESSAGE) return bytes;
    loses = (flags & Flag.MORE) !== 0;
    return undefined;
  };
}

/** A server that takes the checksum of a compressed tensor for that of its compressed bytes. */
function checksCompressedBytes(): Fault {
  const tensors = new Set<number>();
  const noted: Change = (bytes) => {
    if (isControl(bytes)) return bytes;
    const { kind, codec, stream, rest } = parseFrame(bytes);
    if (kind !== Kind.REQUEST || codec !== Codec.AVP || rest.length < 12) return bytes;
    // Flags and length of the metadata; a checksum is their last field.
    const metadata = rest.subarray(12, 12 + new DataView(rest.buffer, rest.byteOffset).getUint16(8, true));
    if (rest[3] === 1 && metadata.includes(0x78)) tensors.add(stream);
    return bytes;
  };
  const answered: Change = (bytes) => {
    if (isControl(bytes)) return bytes;
    const { kind, stream } = parseFrame(bytes);
    if (kind === Kind.RESPONSE && tensors.has(stream))
      return frame(Kind.ERROR, stream, packed({ code: 'bad_checksum', message: 'it does not fit' }));
    return kind === Kind.ERROR && tensors.has(stream) ? frame(Kind.RESPONSE, stream, 0) : bytes;
  };
  return { client: () => noted, server: () => answered };
}

/** A client that holds messages back which it would have to write again. */
function holdsRepeats(): Fault {
  let isResumed = false;
  return {
    server: () => (bytes) => {
      if (isOf('ACCEPT', bytes)) {
        const { resume } = (unpacked(bytes, 'ACCEPT')['payload'] ?? {}) as { resume?: Fields };
        isResumed = resume?.['recovered'] === true;
      }
      return bytes;
    },
    client: () => (bytes) =>
      isResumed && !isControl(bytes) && parseFrame(bytes).kind === Kind.MESSAGE ? undefined : bytes,
  };
}

/** A server that codes a part again for a follower that has its codec. */
function codesAgain(): Change {
  const seen = new Set<string>();
  return (bytes) => {
    if (isControl(bytes)) return bytes;
    const parsed = parseFrame(bytes);
    if (parsed.kind !== Kind.CHUNK || parsed.codec !== Codec.BROTLI) return bytes;
    const { content, metadata } = parseHead(parsed);
    const key = Buffer.from(content).toString('hex');
    if (!seen.has(key)) {
      seen.add(key);
      return bytes;
    }
    const body = { codec: Codec.NONE, bytes: brotliDecompressSync(content) };
    return bodyFrames(Kind.CHUNK, parsed.stream, { ...body, ...(metadata !== undefined && { metadata }) });
  };
}

/** A client whose HELLO has its last nonce, also if it resumes. */
function keepsItsNonce(): Change {
  let last: unknown;
  const keep = inControl('HELLO', (payload) => {
    last = payload['nonce'] ?? last;
    return { ...payload, nonce: last };
  });
  return keep();
}

/** A server that answers a HELLO that has come again with another token. */
function renewsTokens(): Change {
  const begun = new Set<unknown>();
  return (bytes) => {
    if (!isOf('ACCEPT', bytes)) return bytes;
    const fields = unpacked(bytes, 'ACCEPT');
    const { session_id: id, payload } = fields as { session_id?: unknown; payload?: Fields };
    const resume = (payload?.['resume'] ?? {}) as Fields;
    const isRepeated = begun.has(id) && resume['recovered'] !== true;
    begun.add(id);
    if (!isRepeated) return bytes;
    return packed({
      ...fields,
      payload: { ...payload, resume: { ...resume, token: `${resume['token']}2` } },
    });
  };
}

/** Only the first message of a type passes on all connections together. */
function firstOnly(type: string): () => Change {
  let seen = 0;
  return inControl(type, (payload) => (seen++ === 0 ? payload : undefined));
}

export const FAULTS: Readonly<Record<string, Fault>> = {
  // Of the client.
  never_renews: { client: inControl('AUTH', () => undefined) },
  ignores_goaway: { server: inControl('GOAWAY', () => undefined) },
  counts_agents_from_one: {
    client: inFrames(
      Kind.ALIAS,
      renamed((number, name) => [number + 1, name]),
    ),
  },
  follows_one_too_far: {
    client: inMetadata(Kind.REQUEST, (metadata) => {
      const follow = metadata['follow'] as Fields | undefined;
      return follow === undefined
        ? metadata
        : { follow: { ...follow, after: Number(follow['after'] ?? 0) + 1 } };
    }),
  },
  repeats_handled_messages: {
    server: inResume('ACCEPT', (resume) =>
      withKept(resume, (all) => ({ ...all, handled: Number(all['handled']) - 1 })),
    ),
  },
  calls_nothing_again: {
    server: inResume('ACCEPT', (resume) => withKept(resume, (all) => ({ ...all, again: [] }))),
  },
  has_one_message_more: {
    client: inResume('HELLO', (resume) => {
      const have = resume['have'] as Fields | undefined;
      return have === undefined
        ? resume
        : { ...resume, have: { ...have, messages: Number(have['messages']) + 1 } };
    }),
  },
  forgets_rebuild: { client: inResume('HELLO', ({ rebuild: _, ...resume }) => resume) },
  outlives_its_window: {
    server: inResume('ACCEPT', (resume) => ({ ...resume, window_ms: 600_000 })),
  },
  holds_repeats: holdsRepeats(),
  takes_another_nonce: {
    client: inControl('HELLO', (payload) =>
      'nonce' in payload ? { ...payload, nonce: randomBytes(16) } : payload,
    ),
  },
  resumes_with_its_nonce: { client: keepsItsNonce },
  // Of the server.
  forgets_nonces: { client: inControl('HELLO', ({ nonce: _, ...payload }) => payload) },
  renews_tokens_of_copies: { server: renewsTokens },
  knows_nonces_of_others: {
    client: inControl('HELLO', (payload) =>
      'nonce' in payload ? { ...payload, auth: { token: 'kit' } } : payload,
    ),
  },
  tells_no_end_of_credentials: { server: inControl('AUTH', () => undefined) },
  tells_goaway_once: { server: firstOnly('GOAWAY') },
  takes_codecs_for_loaded: {
    client: inControl('HELLO', (payload) => {
      const extensions = (payload['extensions'] ?? {}) as Fields;
      return 'ready' in extensions ? { ...payload, extensions: { ...extensions, ready: '[]' } } : payload;
    }),
  },
  names_another_sender: {
    server: inFrames(
      Kind.ALIAS,
      renamed((number, name) => [number, name === 'a' ? 'b' : name]),
    ),
  },
  admits_that_replies_exist: {
    server: inFrames(Kind.ERROR, (bytes) => {
      const { stream, rest } = parseFrame(bytes);
      const fields = unpacked(rest, 'an error');
      if (fields['code'] !== 'unknown_reply') return bytes;
      return frame(Kind.ERROR, stream, packed({ ...fields, code: 'forbidden' }));
    }),
  },
  begins_replies_elsewhere: {
    server: inMetadata(Kind.CHUNK, (metadata) => {
      const reply = metadata['@reply'] as Fields | undefined;
      return reply === undefined ? metadata : { ...metadata, '@reply': { ...reply, after: 1 } };
    }),
  },
  believes_any_count: {
    client: inResume('HELLO', (resume) =>
      resume['rebuild'] === true && Number(resume['received']) > 1000
        ? { ...resume, received: Number(resume['received']) - 1000 }
        : resume,
    ),
  },
  lists_no_interrupted_requests: {
    server: inResume('ACCEPT', (resume) => {
      const rebuilt = resume['rebuilt'] as Fields | undefined;
      return rebuilt === undefined ? resume : { ...resume, rebuilt: { ...rebuilt, cancelled: [] } };
    }),
  },
  compares_no_principals: {
    client: inControl('HELLO', (payload) =>
      'resume' in payload ? { ...payload, auth: { token: 'kit' } } : payload,
    ),
  },
  codes_parts_again: { server: codesAgain },
  refuses_before_goaway_was_read: { server: refusing },
  counts_any_pong: {
    client: () => (bytes) => (isOf('PONG', bytes) ? [bytes, bytes] : bytes),
  },
  loses_half_messages: { server: losing },
  checks_compressed_bytes: checksCompressedBytes(),
  passes_redelivered_on: {
    server: inMetadata(Kind.MESSAGE, (metadata) => ({ '@redelivered': true, ...metadata })),
  },
  handles_everything_again: {
    server: inResume('ACCEPT', (resume) => withKept(resume, (all) => ({ ...all, handled: 0 }))),
  },
};

export interface Faulty {
  readonly url: string;
  close(): Promise<void>;
}

/** Stands before a server, and changes what passes as the fault says. */
export async function startFaulty(url: string, { client, server, leaves = false }: Fault): Promise<Faulty> {
  const former = new Set<WebSocket>();
  /** The connection to the server for each upgrade request. */
  const ends = new WeakMap<IncomingMessage, WebSocket>();
  const front = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(BINARY) ? BINARY : false),
    // A client must not have a connection before the server has it.
    verifyClient({ req: request }, answer) {
      const { authorization } = request.headers;
      const headers = authorization === undefined ? {} : { authorization };
      const far = new WebSocket(url, [BINARY], { perMessageDeflate: false, headers });
      far.once('error', () => answer(false, 502));
      far.once('open', () => {
        for (const each of leaves ? former : []) each.close(1001);
        former.add(far);
        ends.set(request, far);
        answer(true);
      });
    },
  });
  const [ofClient, ofServer] = [client?.(), server?.()];
  front.on('connection', (near, request) => {
    const far = ends.get(request) as WebSocket;
    const pass = (from: WebSocket, to: WebSocket, change: Change | undefined) => {
      from.on('message', (data: Buffer, isBinary: boolean) => {
        const changed = isBinary && data.length > 0 ? (change ?? same)(data) : data;
        if (changed === undefined || to.readyState !== WebSocket.OPEN) return;
        const messages = changed instanceof Uint8Array ? [changed] : changed;
        for (const message of messages) to.send(message, { binary: isBinary });
      });
      from.on('error', () => {});
      from.on('close', (code: number, reason: Buffer) => {
        const sendable = code === 1000 || code === 1001 || code >= 1007 ? code : undefined;
        if (sendable === undefined || code === 1015) to.terminate();
        else to.close(sendable, reason);
      });
    };
    pass(near, far, ofClient);
    pass(far, near, ofServer);
  });
  await once(front, 'listening');
  return {
    url: `ws://127.0.0.1:${(front.address() as AddressInfo).port}/session`,
    async close() {
      for (const socket of front.clients) socket.terminate();
      await new Promise((resolve) => front.close(resolve));
    },
  };
}

const same: Change = (message) => message;
