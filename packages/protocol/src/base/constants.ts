/**
 * The protocol's words on the wire: subprotocols, versions, prefixes and names. The rest of the package takes
 * them from this file.
 */

/** WebSocket subprotocols, in the server's order of preference. */
export const Subprotocol = {
  /** Binary: MessagePack control envelopes, self-describing or link data frames. */
  BINARY: 'm2m.v1',
  /** JSON envelopes as text, for debugging and for peers that cannot do binary. */
  JSON: 'm2m.v1.json',
} as const;
export type Subprotocol = (typeof Subprotocol)[keyof typeof Subprotocol];

/** A client that says HELLO in its upgrade request offers this beside `m2m.v1`. A server that has read HELLO there selects it. */
export const HELLO_READ = 'm2m.v1.hello';
/** So begins the name in which HELLO is; the frame follows in base64url, without padding. */
export const HELLO_OFFER = 'hello.';
/** Bytes of that frame, 4,096 characters of base64url: with the other headers it has to pass proxies. */
export const MAX_EARLY_HELLO = 3_072;

/** The protocol version in HELLO and ACCEPT of a peer that sends flat capabilities. */
export const PROTOCOL_VERSION = '1.0';
/** The version that the reference implementation sends, with nested capabilities. */
export const NESTED_PROTOCOL_VERSION = '3.0';

/** Compression algorithms that peers negotiate, by their names on the wire. */
export const Algorithm = {
  M2M: 'M2M',
  TOKEN_NATIVE: 'TOKEN_NATIVE',
  TOKEN: 'TOKEN',
  BROTLI: 'BROTLI',
  DICTIONARY: 'DICTIONARY',
  NONE: 'NONE',
} as const;
export type Algorithm = (typeof Algorithm)[keyof typeof Algorithm];

/** Tokenizer vocabularies that peers negotiate, by their names on the wire. */
export const EncodingName = {
  CL100K_BASE: 'CL100K_BASE',
  O200K_BASE: 'O200K_BASE',
  LLAMA_BPE: 'LLAMA_BPE',
} as const;
export type EncodingName = (typeof EncodingName)[keyof typeof EncodingName];

/** The tokenizer byte of a binary TokenNative frame (compression document, section 5.4.5). */
export const ENCODING_IDS = {
  CL100K_BASE: 0,
  O200K_BASE: 1,
  LLAMA_BPE: 2,
} as const satisfies Record<EncodingName, number>;

/** The tokenizer letter of a textual TokenNative frame (wire document, section 3.4.2). */
export const ENCODING_LETTERS = {
  CL100K_BASE: 'C',
  O200K_BASE: 'O',
  LLAMA_BPE: 'L',
} as const satisfies Record<EncodingName, string>;

/** Prefixes of the text forms; plain text that is sent uncoded never begins with one of them. */
export const Prefix = {
  M2M: '#M2M|1|',
  TOKEN_NATIVE: '#TK|',
  TOKEN: '#T1|',
  BROTLI: '#BR|',
  BROTLI_V3: '#M2M[v3.0]|DATA:',
  ZLIB_V2: '#M2M[v2.0]|DATA:',
  DICTIONARY: '#DI|',
} as const;
export type Prefix = (typeof Prefix)[keyof typeof Prefix];

/** Optional parts of the protocol; an extension is off unless both sides list it. */
export const Extension = {
  /** Streams, requests and fragmentation inside link frames. */
  LINK: 'link',
  /** Sessions that outlive their connections. */
  RESUME: 'resume',
  /** A resumed session may have a new link, for a page that was loaded again. */
  REBUILD: 'rebuild',
  /** The client opens its next connection before it leaves the present one, if GOAWAY asks for that. */
  MOVE: 'move',
  /** The session is recorded: it outlives the process that has it. */
  DURABLE: 'durable',
  /** Messages coded against earlier messages of the session. */
  CONTEXT: 'context',
  /** Messages and requests to other agents on the server, and a directory of them. */
  AGENTS: 'agents',
  /** The model of each end, as in AVP's handshake; decides which tensors the two can exchange. */
  AVP: 'avp',
  /** Hashes of the vocabularies that the encoding names stand for, as a JSON object. */
  VOCABULARIES: 'vocabularies',
  /** The client loads the code of some codecs after ACCEPT, and sends READY when it has. */
  READY: 'ready',
  /** HELLO and ACCEPT leave out what has its standard value. */
  STANDARD: 'std',
  /** Replies that the server keeps, and that others than the requester may follow. */
  REPLIES: 'replies',
} as const;
export type Extension = (typeof Extension)[keyof typeof Extension];

/** The extensions that options switch on and off, with what they state by default; '' is nothing to offer. */
export const SWITCHED_EXTENSIONS: Readonly<Record<string, string>> = {
  [Extension.LINK]: '{}',
  [Extension.RESUME]: '{}',
  [Extension.REBUILD]: '1',
  [Extension.MOVE]: '1',
  [Extension.DURABLE]: '1',
  [Extension.CONTEXT]: '',
  [Extension.AGENTS]: '{}',
  [Extension.REPLIES]: '{}',
  [Extension.AVP]: '',
};

/** Those of them that are off by default. */
export const OFF_BY_DEFAULT: readonly string[] = [Extension.REBUILD, Extension.MOVE, Extension.DURABLE];

/** Resuming, and the extensions that only work with it. */
export const NEEDS_RESUME: readonly string[] = [Extension.RESUME, ...OFF_BY_DEFAULT];

/** The link, and the extensions that only work over it. */
export const NEEDS_LINK: readonly string[] = [...Object.keys(SWITCHED_EXTENSIONS), Extension.READY];

/**
 * Extensions that a server agrees on for the sessions that it records, and for no others. Such a session has a
 * channel of its own, whose code a page loads when it was agreed on.
 */
export const DURABLE_ONLY: readonly string[] = [Extension.DURABLE];

/** The server's own name for the directory of agents. */
export const DIRECTORY = '@directory';
/** The server's own name as the sender of reports about undeliverable messages. */
export const DELIVERY = '@delivery';
/** The server's own name for the replies that it keeps. */
export const REPLIES = '@replies';

/** The extension for which a session that follows a lost one proves that it is of the same client. */
export const PROOF_FOR: string = Extension.REPLIES;

/** The extensions that let bodies be addressed, and to which names: to all of them, or to one of the server. */
export const ADDRESSED_BY: Readonly<Record<string, 'all' | `@${string}`>> = {
  [Extension.AGENTS]: 'all',
  [Extension.REPLIES]: REPLIES,
};

/** Stream IDs stay below 2^32; reaching it ends the session. */
export const MAX_STREAM_ID = 2 ** 32 - 1;
