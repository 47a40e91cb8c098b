import { type Body, ProtocolError } from '@parlance/protocol';
import {
  assertOptions,
  called,
  contentOf,
  endpointOf,
  isBlob,
  type OptionKinds,
  ownContent,
  readBlob,
  SELF,
  workAsTheyAre,
} from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { jsonOf, ServedSession, type ServerSession } from '../session/served-session.js';
import type { GroupMessage, PlainContent } from './delivery.js';
import type {
  Group,
  GroupAddOptions,
  GroupSendOptions,
  GroupSent,
  MembersOptions,
  MembersPage,
  PresenceChange,
} from './group.js';
import type { Groups } from './groups.js';
import type { Membership } from './local-group.js';
import { membersHere } from './members.js';
import type { Presences } from './presences.js';
import { MAX_AFTER, MAX_NAME } from './state.js';

/** Members of one page. */
export const MAX_PAGE = 1_000;
const PAGE = 100;

const KINDS: OptionKinds<GroupSendOptions> = { algorithm: 'text', compressAlone: 'flag', except: 'object' };
const ADD_KINDS: OptionKinds<GroupAddOptions> = { data: 'any' };
const MEMBERS_KINDS: OptionKinds<MembersOptions> = { limit: 'number', after: 'text' };
const PRESENCE_KINDS: OptionKinds<{ signal?: AbortSignal | undefined }> = { signal: 'signal' };
const NONE: GroupSendOptions = Object.freeze({});
const NO_MEMBERS: ReadonlyMap<ServerEndpoint, Membership> = new Map();

/** The server, as a group uses it. */
export interface GroupHost {
  readonly groups: Groups;
  readonly presences: Presences;
  /** Names this node. */
  readonly own: string;
  /** Bytes of a message. */
  readonly maxMessageSize: number;
  readonly maxDataBytes: number;
}

/** A group, as applications see it. */
export class NamedGroup implements Group {
  readonly [SELF] = this;
  readonly name: string;
  readonly #host: GroupHost;

  /** @throws {ProtocolError} `invalid_argument`. */
  constructor(host: GroupHost, name: string) {
    if (typeof name !== 'string' || name === '' || name.length > MAX_NAME)
      throw new ProtocolError('invalid_argument', `group: a name of 1 to ${MAX_NAME} characters is expected`);
    this.#host = host;
    this.name = name;
  }

  get #members(): ReadonlyMap<ServerEndpoint, Membership> {
    return this.#host.groups.local.get(this.name)?.members ?? NO_MEMBERS;
  }

  get size(): number {
    return this.#members.size;
  }

  has(session: ServerSession): boolean {
    return this.#members.has(served(session));
  }

  add(session: ServerSession, options: GroupAddOptions = {}): boolean {
    assertOptions(options, ADD_KINDS);
    return this.#host.groups.add(this.name, served(session), encode(options.data, this.#host.maxDataBytes));
  }

  delete(session: ServerSession): boolean {
    return this.#host.groups.delete(this.name, served(session));
  }

  *[Symbol.iterator](): IterableIterator<ServerSession> {
    for (const { session } of this.#members.keys()) yield session;
  }

  send(body: Body, options: GroupSendOptions = NONE): Promise<GroupSent> {
    return called(() => this.#send(body, options));
  }

  async #send(body: Body, options: GroupSendOptions): Promise<GroupSent> {
    assertOptions(options, KINDS);
    const { algorithm, compressAlone: secret } = options;
    const except = options.except && served(options.except).id;
    const { groups, maxMessageSize } = this.#host;
    // Members have it in different codecs, and other nodes may ask for it later.
    const given = ownContent(contentOf(body));
    const content = isBlob(given) ? await readBlob(given, maxMessageSize) : given;
    const message: GroupMessage = { content, algorithm, secret, except, size: bytesOf(content) };
    const said = groups.nodes?.say(this.name, message);
    const { result, later } = groups.hand(this.name, message, said?.sequence);
    await Promise.all(later);
    return said === undefined ? result : { ...result, elsewhere: said.elsewhere };
  }

  members(options: MembersOptions = {}): Promise<MembersPage> {
    return called(() => this.#list(options));
  }

  async #list(options: MembersOptions): Promise<MembersPage> {
    assertOptions(options, MEMBERS_KINDS);
    const { limit = PAGE, after } = options;
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_PAGE)
      throw new ProtocolError('invalid_option', `limit must be a whole number from 1 to ${MAX_PAGE}`);
    if (after !== undefined && after.length > MAX_AFTER)
      throw new ProtocolError('invalid_option', 'after must be the `next` of a page');
    const { groups, own } = this.#host;
    if (groups.nodes !== undefined) return await groups.nodes.members(this.name, after, limit);
    return membersHere(groups, own, this.name, after, limit);
  }

  presence(
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): AsyncIterableIterator<readonly PresenceChange[]> {
    assertOptions(options, PRESENCE_KINDS);
    return this.#host.presences.watch(this.name, options.signal);
  }
}

/** Bytes of a content, which is not coded to know that. */
function bytesOf(content: PlainContent): number {
  if (typeof content === 'string') return Buffer.byteLength(content);
  return content instanceof Uint8Array ? content.length : content.tokens.length * 4;
}

/** @throws {ProtocolError} `invalid_argument`, `message_too_large`. */
function encode(data: unknown, most: number): string | undefined {
  const text = jsonOf(data);
  const size = text === undefined ? 0 : Buffer.byteLength(text);
  if (size <= most) return text;
  throw new ProtocolError('message_too_large', `group: ${size} bytes of data; at most ${most} are shown`);
}

/** @throws {ProtocolError} `invalid_argument`. */
function served(session: ServerSession): ServerEndpoint {
  if (session instanceof ServedSession) return endpointOf(session) as ServerEndpoint;
  throw new ProtocolError('invalid_argument', 'group: a session of a server is expected');
}

workAsTheyAre(NamedGroup);
