import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Subprotocol } from '@parlance/protocol';
import { isStatedAgentId } from '@parlance/protocol/internal';
import type { CheckedIdentity } from '../session/admission/admission.js';
import { MAX_PRINCIPAL_LENGTH } from '../session/admission/authentication.js';

/**
 * A ticket proves to a node that another node of the cluster has authenticated a client, and for what: one connection,
 * one session, one HELLO. It is the payload and its HMAC-SHA256, each in base64url.
 */

/** How long a ticket is valid, in milliseconds; the clocks of nodes may differ by less. */
export const TICKET_TTL_MS = 30_000;
/** Tickets that are remembered, so that none is accepted twice. Beyond them none is accepted. */
export const MAX_REMEMBERED = 100_000;

const VERSION = 1;
const NONCE_BYTES = 16;

/** The description of a connection that a node passes on. */
export interface ClientOfTicket {
  readonly sessionId: string;
  /** SHA-256 of the bytes of HELLO, in base64. */
  readonly helloDigest: string;
  readonly subprotocol: Subprotocol;
  readonly identity: CheckedIdentity;
  /** The client's address, and the headers of its upgrade, as the landing node has them. */
  readonly ip: string;
  readonly headers: IncomingHttpHeaders;
  readonly isForwarded: boolean;
}

/** A ticket that was accepted. */
export interface Ticket extends ClientOfTicket {
  /** The incarnation of the landing node. */
  readonly source: string;
}

/** The purpose of a connection between two nodes. */
export type Purpose = keyof typeof PURPOSES;

/** Why a ticket was not accepted; `other_node` if it is for a node that is not this one. */
export type TicketRefusal = 'wrong' | 'other_node' | 'expired' | 'replayed' | 'full';

export interface TicketsOptions {
  /** The first one signs, all of them verify. */
  readonly secrets: readonly Uint8Array[];
  /** This node. */
  readonly incarnation: string;
  /** Unix milliseconds. */
  readonly now: () => number;
  /** @default MAX_REMEMBERED */
  readonly maxRemembered?: number | undefined;
}

export class Tickets {
  readonly #secrets: readonly Uint8Array[];
  readonly #incarnation: string;
  readonly #now: () => number;
  readonly #maxRemembered: number;
  /** Nonces of tickets that were accepted, and when they expire. */
  readonly #seen = new Map<string, number>();

  constructor({ secrets, incarnation, now, maxRemembered = MAX_REMEMBERED }: TicketsOptions) {
    this.#secrets = secrets;
    this.#incarnation = incarnation;
    this.#now = now;
    this.#maxRemembered = maxRemembered;
  }

  /** A ticket for one connection to the node `target`. */
  issue(target: string, client: ClientOfTicket): string {
    const { identity, sessionId, helloDigest, subprotocol, ip, headers, isForwarded } = client;
    const { principal, agentId = null, expiresAt = null } = identity;
    return this.#sign(TICKET, target, [
      sessionId,
      helloDigest,
      subprotocol,
      principal,
      agentId,
      expiresAt,
      ip,
      isForwarded,
      headers,
    ]);
  }

  /** Accepts a ticket once. Nothing in it is looked at before its signature is verified. */
  accept(text: string): Ticket | TicketRefusal {
    const content = this.#verify(TICKET, text, CHECKS.length);
    if (typeof content === 'string') return content;
    return { source: content[2], ...clientOf(content as unknown as Content) };
  }

  /** A ticket for one connection between this node and the node `target`. */
  issueFor(purpose: Purpose, target: string): string {
    return this.#sign(PURPOSES[purpose], target);
  }

  /** Accepts a ticket of {@link issueFor} once. */
  acceptFor(purpose: Purpose, text: string): { readonly source: string } | TicketRefusal {
    const content = this.#verify(PURPOSES[purpose], text, NODE_FIELDS);
    return typeof content === 'string' ? content : { source: content[2] };
  }

  #sign(purpose: string, target: string, client: readonly unknown[] = []): string {
    const nonce = randomBytes(NONCE_BYTES).toString('base64');
    const content = [VERSION, target, this.#incarnation, this.#now(), nonce, ...client];
    const payload = Buffer.from(JSON.stringify(content));
    const signature = sign(this.#secrets[0] as Uint8Array, purpose, payload);
    return `${payload.toString('base64url')}.${signature.toString('base64url')}`;
  }

  #verify(purpose: string, text: string, fields: number): NodeContent | TicketRefusal {
    const [encoded = '', signature = '', ...rest] = text.split('.', 3);
    const payload = Buffer.from(encoded, 'base64url');
    if (rest.length > 0 || !verify(this.#secrets, purpose, payload, signature)) return 'wrong';
    const content = parse(payload);
    return isContent(content, fields) ? (this.#admit(content) ?? content) : 'wrong';
  }

  /** Remembers a ticket, so that none is accepted twice. */
  #admit([, target, , time, nonce]: NodeContent): TicketRefusal | undefined {
    if (target !== this.#incarnation) return 'other_node';
    const now = this.#now();
    if (Math.abs(now - time) > TICKET_TTL_MS) return 'expired';
    if (this.#seen.has(nonce)) return 'replayed';
    if (this.#seen.size >= this.#maxRemembered) this.#forget(now);
    if (this.#seen.size >= this.#maxRemembered) return 'full';
    this.#seen.set(nonce, time + TICKET_TTL_MS);
    return undefined;
  }

  /** Forgets tickets that have expired. */
  sweep(): void {
    this.#forget(this.#now());
  }

  /** Tickets that are remembered. */
  get remembered(): number {
    return this.#seen.size;
  }

  #forget(now: number): void {
    for (const [nonce, expiresAt] of this.#seen) if (expiresAt < now) this.#seen.delete(nonce);
  }
}

/** SHA-256 in base64, as in {@link ClientOfTicket.helloDigest}. */
export function digestOf(message: Uint8Array | string): string {
  return createHash('sha256').update(message).digest('base64');
}

/** Proves that a node that has the secret announces `address` as its own. */
export function proveAddress(secret: Uint8Array, incarnation: string, address: string): string {
  return sign(secret, ADDRESS, addressPayload(incarnation, address)).toString('base64url');
}

export function isProven(
  secrets: readonly Uint8Array[],
  incarnation: string,
  address: string,
  proof: string,
): boolean {
  return verify(secrets, ADDRESS, addressPayload(incarnation, address), proof);
}

function addressPayload(incarnation: string, address: string): Buffer {
  return Buffer.from(JSON.stringify([incarnation, address]));
}

// --- signatures

/** Prefixes of signed texts, so that no signature is valid for a text of another kind. */
const TICKET = 'parlance ticket 1\n';
const PURPOSES = { link: 'parlance link 1\n', standing: 'parlance standing 1\n' } as const;
const ADDRESS = 'parlance node 1\n';

function sign(secret: Uint8Array, purpose: string, payload: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(purpose).update(payload).digest();
}

/** Compares in constant time. */
function verify(
  secrets: readonly Uint8Array[],
  purpose: string,
  payload: Uint8Array,
  signature: string,
): boolean {
  const given = Buffer.from(signature, 'base64url');
  let isValid = false;
  for (const secret of secrets) {
    const expected = sign(secret, purpose, payload);
    if (given.length === expected.length && timingSafeEqual(given, expected)) isValid = true;
  }
  return isValid;
}

// --- the payload

type Content = readonly [
  ...NodeContent,
  sessionId: string,
  helloDigest: string,
  subprotocol: Subprotocol,
  principal: string,
  agentId: string | null,
  expiresAt: number | null,
  ip: string,
  isForwarded: boolean,
  headers: IncomingHttpHeaders,
];

type NodeContent = readonly [version: number, target: string, source: string, time: number, nonce: string];

function clientOf(content: Content): ClientOfTicket {
  const [, , , , , sessionId, helloDigest, subprotocol, principal, agentId, expiresAt, ip] = content;
  const [isForwarded, headers] = content.slice(-2) as [boolean, IncomingHttpHeaders];
  const identity = { principal, agentId: agentId ?? undefined, expiresAt: expiresAt ?? undefined };
  return { sessionId, helloDigest, subprotocol, identity, ip, headers, isForwarded };
}

function parse(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
/** Of a node, or a nonce, which is remembered. */
const isName = (value: unknown): boolean => isText(value) && (value as string).length <= MAX_NAME;
const MAX_NAME = 64;
/** The first fields of both kinds of tickets. */
const NODE_FIELDS = 5;
const CHECKS: readonly ((value: unknown) => boolean)[] = [
  (version) => version === VERSION,
  isName,
  isName,
  Number.isFinite,
  isName,
  isText,
  isText,
  (name) => Object.values<unknown>(Subprotocol).includes(name),
  (principal) => isText(principal) && (principal as string).length <= MAX_PRINCIPAL_LENGTH,
  (agentId) => agentId === null || (typeof agentId === 'string' && isStatedAgentId(agentId)),
  (expiresAt) => expiresAt === null || Number.isFinite(expiresAt),
  (ip) => typeof ip === 'string',
  (isForwarded) => typeof isForwarded === 'boolean',
  isHeaders,
];

/** Not for the payload of another version, or of a node that is wrong about the format. */
function isContent(value: unknown, fields: number): value is NodeContent {
  return (
    Array.isArray(value) &&
    value.length === fields &&
    value.every((field, index) => CHECKS[index]?.(field) === true)
  );
}

function isHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    (header) =>
      typeof header === 'string' ||
      (Array.isArray(header) && header.every((each) => typeof each === 'string')),
  );
}
